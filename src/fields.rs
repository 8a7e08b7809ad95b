//! The fields of a configuration: one table for everything that goes by their names.

use std::fmt::Debug;
use std::path::PathBuf;

use crate::backends::Backend;
use crate::{Config, Error, ErrorKind, Result, duration, keeper, mysql_settings, scalar};

/// One field of [`Config`] besides its URL.
pub(crate) struct Field {
    /// How it is written, in every source.
    pub(crate) name: &'static str,
    /// The backends that have it.
    of: &'static [Backend],
    fill: fn(&mut Config, &str, &str) -> Result<()>,
    is_given: fn(&Config) -> bool,
    inherit: fn(&mut Config, &Config),
    show: fn(&Config) -> &dyn Debug,
}

/// A row of the table: the field, the backends that have it, and what reads it from text.
macro_rules! field {
    ($name:ident, $of:expr, $read:path) => {
        Field {
            name: stringify!($name),
            of: $of,
            fill: |config, called, text| {
                // Read in any case, so that a mistake shows even where another source wins.
                let value = $read(called, text)?;
                config.$name.get_or_insert(value);
                Ok(())
            },
            is_given: |config| config.$name.is_some(),
            inherit: |config, outer| {
                if config.$name.is_none() {
                    config.$name.clone_from(&outer.$name);
                }
            },
            show: |config| &config.$name,
        }
    };
}

const ANY: &[Backend] = Backend::ALL;
const MYSQL: &[Backend] = &[Backend::MySql];

pub(crate) static FIELDS: [Field; 14] = [
    field!(namespace, ANY, text),
    field!(ttl, ANY, duration::parse),
    field!(request_wait, ANY, duration::parse),
    field!(lock_delay, ANY, duration::parse),
    field!(hand_off, ANY, duration::parse),
    field!(keeper, ANY, keeper::parse),
    field!(tls_ca, ANY, path),
    field!(tls_cert, ANY, path),
    field!(tls_key, ANY, path),
    field!(hold, MYSQL, mysql_settings::hold),
    field!(table, MYSQL, text),
    field!(create_table, MYSQL, scalar::truth),
    field!(purge_after, MYSQL, mysql_settings::purge_after),
    field!(connections, MYSQL, scalar::count),
];

impl Field {
    pub(crate) fn named(name: &str) -> Option<&'static Self> {
        FIELDS.iter().find(|field| field.name == name)
    }

    /// Sets it to what the text says, unless it is set. Errors call it `called`.
    pub(crate) fn fill(&self, config: &mut Config, called: &str, text: &str) -> Result<()> {
        (self.fill)(config, called, text)
    }

    /// Sets it to what `outer` says, unless it is set.
    pub(crate) fn inherit(&self, config: &mut Config, outer: &Config) {
        (self.inherit)(config, outer)
    }

    pub(crate) fn is_of(&self, backend: Backend) -> bool {
        self.of.contains(&backend)
    }

    pub(crate) fn show<'a>(&self, config: &'a Config) -> &'a dyn Debug {
        (self.show)(config)
    }
}

/// Refuses a field that the backend does not have: whoever set it expects something of it.
pub(crate) fn refuse_foreign(config: &Config, backend: Backend, scheme: &str) -> Result<()> {
    let mut foreign = FIELDS.iter().filter(|field| !field.is_of(backend));
    let Some(field) = foreign.find(|field| (field.is_given)(config)) else {
        return Ok(());
    };
    let schemes = field.of.iter().flat_map(|backend| backend.schemes());
    let others: Vec<String> = schemes.map(|scheme| format!("{scheme}://")).collect();
    Err(Error::new(
        ErrorKind::Config,
        format!(
            "{} is set, and {scheme}:// has no such setting: leave it out, or use {}",
            field.name,
            others.join(" or ")
        ),
    ))
}

/// What to do about the unknown setting `name`, where there is something to say.
pub(crate) fn advice_on(name: &str) -> &'static str {
    match name {
        "wait" => "; request_wait bounds requests that name no wait, and lock() waits for ever",
        _ => "",
    }
}

fn text(_called: &str, text: &str) -> Result<String> {
    Ok(text.to_owned())
}

fn path(_called: &str, text: &str) -> Result<PathBuf> {
    Ok(text.into())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Two values of each field, in the order of the table.
    const SAMPLES: [(&str, [&str; 2]); 14] = [
        ("namespace", ["shop", "bank"]),
        ("ttl", ["5s", "9s"]),
        ("request_wait", ["0s", "1s"]),
        ("lock_delay", ["0s", "1s"]),
        ("hand_off", ["0s", "5ms"]),
        ("keeper", ["caller", "thread"]),
        ("tls_ca", ["/a.pem", "/b.pem"]),
        ("tls_cert", ["/a.pem", "/b.pem"]),
        ("tls_key", ["/a.pem", "/b.pem"]),
        ("hold", ["row", "lease"]),
        ("table", ["a", "b"]),
        ("create_table", ["false", "true"]),
        ("purge_after", ["0s", "1s"]),
        ("connections", ["1", "2"]),
    ];

    #[test]
    fn what_is_set_first_stays() {
        for (field, (name, [first, second])) in FIELDS.iter().zip(SAMPLES) {
            assert_eq!(field.name, name);
            let [mut config, mut other] = [Config::new(""), Config::new("")];
            assert!(!(field.is_given)(&config));
            field.fill(&mut config, name, first).unwrap();
            assert!((field.is_given)(&config), "{name}");
            let set = config.clone();
            field.fill(&mut config, name, second).unwrap();
            assert_eq!(config, set);
            field.fill(&mut other, name, second).unwrap();
            assert_ne!(config, other, "{name}: both values are the same");
            assert!(format!("{config:?}").contains(&format!("{name}: Some(")));
        }
    }

    #[test]
    fn a_mistake_is_told_although_another_source_wins() {
        for (name, text, advice) in [
            ("ttl", "5", "write a number and a unit"),
            ("lock_delay", "5", "write a number and a unit"),
            ("keeper", "me", "known are \"thread\", \"caller\""),
            ("hold", "rows", "known are \"lease\", \"row\""),
            ("create_table", "no", "known are \"true\", \"false\""),
            ("purge_after", "1", "write a number and a unit"),
            (
                "purge_after",
                "999ms",
                "999ms is too short: choose at least 1s, or \"0s\" for never",
            ),
            ("connections", "0", "a whole number from 1"),
            ("connections", "-1", "a whole number from 1"),
            ("connections", "many", "a whole number from 1"),
        ] {
            let field = Field::named(name).unwrap();
            let sample = SAMPLES.iter().find(|(sample, _)| *sample == name);
            let mut config = Config::new("");
            field.fill(&mut config, name, sample.unwrap().1[0]).unwrap();
            let error = field.fill(&mut config, "NAME", text).unwrap_err();
            assert_eq!(error.kind(), ErrorKind::Config);
            let error = error.to_string();
            assert!(error.starts_with("NAME: "), "{error}");
            assert!(error.contains(advice), "{error}");
        }
    }

    #[test]
    fn a_field_of_another_backend_is_refused_by_name() {
        for (name, [sample, _]) in SAMPLES {
            let field = Field::named(name).unwrap();
            let mut config = Config::new("");
            field.fill(&mut config, name, sample).unwrap();
            assert!(refuse_foreign(&config, Backend::MySql, "mysql").is_ok());
            let refused = refuse_foreign(&config, Backend::Redis, "rediss");
            if field.is_of(Backend::Redis) {
                assert!(refused.is_ok(), "{name}");
                continue;
            }
            assert_eq!(
                refused.unwrap_err().to_string(),
                format!(
                    "{name} is set, and rediss:// has no such setting: leave it out, or use mysql:// or mysqls://"
                )
            );
        }
    }
}
