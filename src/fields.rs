//! The settings of a configuration, in one table.

use std::fmt::Debug;

pub(crate) use crate::config::FIELDS;
use crate::registry::backend::Backend;
use crate::url::StoreUrl;
use crate::{Config, Error, ErrorKind, Registry, Result};

/// One setting, a field of [`Config`].
pub(crate) struct Field {
    /// The setting's name in every source.
    pub(crate) name: &'static str,
    pub(crate) of: Of,
    /// Returns true if formats with typed values have to write the setting as text.
    pub(crate) is_text: fn() -> bool,
    pub(crate) fill: fn(&mut Config, &str, &str) -> Result<()>,
    pub(crate) is_given: fn(&Config) -> bool,
    pub(crate) inherit: fn(&mut Config, &Config),
    pub(crate) show: fn(&Config) -> &dyn Debug,
}

/// The backends that have a setting.
pub(crate) enum Of {
    All,
    /// All backends with TLS.
    Tls,
    /// The backend with this first scheme.
    One(&'static str),
}

/// Defines [`Config`] and its table [`FIELDS`](crate::config::FIELDS) from one row per setting.
///
/// A row has the setting's name, its type, and its parser.
///
/// For the settings of a single backend it also defines a function that copies them into that
/// backend's configuration, whose fields have the same names.
macro_rules! config {
    (
        $(#[$about:meta])*
        besides { $($(#[$besides_doc:meta])* $besides:ident: $besides_type:ty,)* }
        $(every $of:ident { $($(#[$doc:meta])* $name:ident: $type:ty = $read:path,)* })*
        $(only $backend:literal, by $put:ident into $own:ty {
            $($(#[$own_doc:meta])* $own_name:ident: $own_type:ty = $own_read:path,)*
        })*
    ) => {
        $(#[$about])*
        #[derive(Clone, Default, PartialEq, Eq)]
        pub struct Config {
            $($(#[$besides_doc])* pub $besides: $besides_type,)*
            $($($(#[$doc])* pub $name: Option<$type>,)*)*
            $($($(#[$own_doc])* pub $own_name: Option<$own_type>,)*)*
        }

        pub(crate) static FIELDS: &[$crate::fields::Field] = &[
            $($($crate::fields::field!($name: $type, $read, $crate::fields::Of::$of),)*)*
            $($($crate::fields::field!($own_name: $own_type, $own_read, $crate::fields::Of::One($backend)),)*)*
        ];

        $(
            /// Copies the settings that are set; the backend's defaults remain for all others.
            #[cfg(feature = $backend)]
            pub(crate) fn $put(config: Config, own: &mut $own) {
                $(if let Some(value) = config.$own_name {
                    own.$own_name = value.into();
                })*
            }
        )*
    };
}

macro_rules! field {
    ($name:ident: $type:ty, $read:path, $of:expr) => {
        $crate::fields::Field {
            name: stringify!($name),
            of: $of,
            is_text: || {
                let texts = [
                    ::std::any::TypeId::of::<String>(),
                    ::std::any::TypeId::of::<::std::path::PathBuf>(),
                ];
                texts.contains(&::std::any::TypeId::of::<$type>())
            },
            fill: |config, called, text| {
                // The value is parsed even if another source wins, so that a mistake shows.
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

pub(crate) use {config, field};

impl Field {
    pub(crate) fn named(name: &str) -> Option<&'static Self> {
        FIELDS.iter().find(|field| field.name == name)
    }

    /// Sets the field from text, unless it is set. Errors use the name `called`.
    pub(crate) fn fill(&self, config: &mut Config, called: &str, text: &str) -> Result<()> {
        (self.fill)(config, called, text)
    }

    /// Copies the field from `outer`, unless it is set.
    pub(crate) fn inherit(&self, config: &mut Config, outer: &Config) {
        (self.inherit)(config, outer)
    }

    pub(crate) fn is_of(&self, backend: &Backend) -> bool {
        match self.of {
            Of::All => true,
            Of::Tls => backend.has_tls,
            Of::One(scheme) => backend.schemes[0] == scheme,
        }
    }

    pub(crate) fn show<'a>(&self, config: &'a Config) -> &'a dyn Debug {
        (self.show)(config)
    }
}

/// Rejects a setting that is neither a field nor a setting of the backend.
pub(crate) fn refuse_unknown(config: &Config, backend: &Backend, url: &StoreUrl) -> Result<()> {
    let mut settings = config.settings.keys();
    let Some(name) = settings.find(|name| !backend.settings.contains(name)) else {
        return Ok(());
    };
    let fields = FIELDS.iter().filter(|field| field.is_of(backend));
    let own = backend.settings.iter().map(String::as_str);
    let known: Vec<&str> = fields.map(|field| field.name).chain(own).collect();
    let place = if url.named.contains(name) {
        "in the url of"
    } else {
        "beside the url of"
    };
    Err(Error::new(
        ErrorKind::Config,
        format!(
            "unknown setting {name:?} {place} {}: known are {}{}",
            url.scheme,
            known.join(", "),
            advice_on(name)
        ),
    ))
}

/// Rejects a field that the backend does not have, which would have no effect.
pub(crate) fn refuse_foreign(
    config: &Config,
    registry: &Registry,
    backend: &Backend,
    scheme: &str,
) -> Result<()> {
    let mut foreign = FIELDS.iter().filter(|field| !field.is_of(backend));
    let Some(field) = foreign.find(|field| (field.is_given)(config)) else {
        return Ok(());
    };
    let others = match field.of {
        Of::One(first) => registry.backend(first)?.schemes.as_slice(),
        Of::All | Of::Tls => &[],
    };
    let others: Vec<String> = others.iter().map(|scheme| format!("{scheme}://")).collect();
    let advice = match others.as_slice() {
        [] => String::new(),
        others => format!(", or use {}", others.join(" or ")),
    };
    Err(Error::new(
        ErrorKind::Config,
        format!(
            "{} is set, and {scheme}:// has no such setting: leave it out{advice}",
            field.name,
        ),
    ))
}

/// Returns advice about the unknown setting `name`, or an empty string.
pub(crate) fn advice_on(name: &str) -> &'static str {
    match name {
        "wait" => "; request_wait bounds requests that name no wait, and lock() waits for ever",
        _ => "",
    }
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
            let registry = Registry::new();
            let of = |scheme| registry.backend(scheme).unwrap();
            assert!(refuse_foreign(&config, &registry, of("mysql"), "mysql").is_ok());
            let refused = refuse_foreign(&config, &registry, of("rediss"), "rediss");
            if field.is_of(of("redis")) {
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
