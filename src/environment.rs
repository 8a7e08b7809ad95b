//! Configuration from environment variables.

use crate::fields::{FIELDS, Field, advice_on};
use crate::{Config, Error, ErrorKind, Result};

const PREFIX: &str = "POLYLOCK_";

impl Config {
    /// Reads `POLYLOCK_URL` and, where set, `POLYLOCK_NAMESPACE`, `POLYLOCK_TTL` and so on.
    ///
    /// The names are the fields of [`Config`] in capitals. With a URL of a backend from a
    /// [`Registry`](crate::Registry), unknown variables are that backend's own
    /// [settings](Self::settings). Variables that Kubernetes sets for a service called `polylock`
    /// (`POLYLOCK_SERVICE_…`, `POLYLOCK_PORT…`) are ignored.
    ///
    /// # Errors
    ///
    /// [`ErrorKind::Config`] if `POLYLOCK_URL` is not set, for a malformed value, and for any other
    /// variable that starts with `POLYLOCK_`, since it is likely misspelt.
    pub fn from_env() -> Result<Self> {
        let variables = std::env::vars_os().filter_map(|(name, value)| {
            let field = name.to_str()?.strip_prefix(PREFIX)?.to_ascii_lowercase();
            Some((field, value.to_string_lossy().into_owned()))
        });
        Self::from_variables(variables)
    }

    fn from_variables(variables: impl IntoIterator<Item = (String, String)>) -> Result<Self> {
        let mut config = Self::default();
        let mut unknown = Vec::new();
        for (field, value) in variables {
            let name = format!("{PREFIX}{}", field.to_ascii_uppercase());
            match Field::named(&field) {
                Some(known) => known.fill(&mut config, &name, &value)?,
                None if field == "url" => config.url = value,
                None if is_of_kubernetes(&field) => {}
                None => unknown.push((field, value)),
            }
        }
        match unknown.first() {
            Some((field, _)) if !config.may_have_own_settings() => {
                return Err(unknown_variable(field));
            }
            _ => config.settings.extend(unknown),
        }
        if config.url.is_empty() {
            return Err(Error::new(
                ErrorKind::Config,
                format!(
                    "{PREFIX}URL is not set: set it to the store's url, such as memory:// or redis://host:6379"
                ),
            ));
        }
        Ok(config)
    }
}

/// Returns true for variables that Kubernetes sets in each container for a service of its
/// namespace.
fn is_of_kubernetes(field: &str) -> bool {
    field.starts_with("service_") || field == "port" || field.starts_with("port_")
}

fn unknown_variable(field: &str) -> Error {
    let name = format!("{PREFIX}{}", field.to_ascii_uppercase());
    let fields = FIELDS.iter().map(|field| field.name);
    let known: Vec<String> = std::iter::once("url")
        .chain(fields)
        .map(|field| format!("{PREFIX}{}", field.to_ascii_uppercase()))
        .collect();
    Error::new(
        ErrorKind::Config,
        format!(
            "unknown environment variable {name}: known are {}{}",
            known.join(", "),
            advice_on(field)
        ),
    )
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use lock_core::KeeperMode;

    use super::*;

    fn read(variables: &[(&str, &str)]) -> Result<Config> {
        let owned = variables
            .iter()
            .map(|(name, value)| (name.to_string(), value.to_string()));
        Config::from_variables(owned)
    }

    #[test]
    fn every_field_can_come_from_the_environment() {
        let config = read(&[
            ("url", "memory://"),
            ("namespace", "shop"),
            ("ttl", "5s"),
            ("request_wait", "0s"),
            ("lock_delay", "5s"),
            ("hand_off", "5ms"),
            ("keeper", "caller"),
            ("tls_ca", "/ca.pem"),
            ("tls_cert", "/cert.pem"),
            ("tls_key", "/key.pem"),
            ("hold", "row"),
            ("table", "app.locks"),
            ("create_table", "false"),
            ("purge_after", "0s"),
            ("connections", "12"),
        ])
        .unwrap();
        assert_eq!(config.url, "memory://");
        assert_eq!(config.namespace.as_deref(), Some("shop"));
        assert_eq!(config.ttl, Some(Duration::from_secs(5)));
        assert_eq!(config.lock_delay, Some(Duration::from_secs(5)));
        assert_eq!(config.request_wait, Some(Duration::ZERO));
        assert_eq!(config.hand_off, Some(Duration::from_millis(5)));
        assert_eq!(config.keeper, Some(KeeperMode::Caller));
        assert_eq!(config.tls_ca, Some("/ca.pem".into()));
        assert_eq!(config.tls_cert, Some("/cert.pem".into()));
        assert_eq!(config.tls_key, Some("/key.pem".into()));
        assert_eq!(config.hold, Some(crate::MySqlHold::Row));
        assert_eq!(config.table.as_deref(), Some("app.locks"));
        assert_eq!(config.create_table, Some(false));
        assert_eq!(config.purge_after, Some(Duration::ZERO));
        assert_eq!(config.connections, Some(12));
    }

    #[test]
    fn what_is_no_field_is_for_a_backend_from_a_registry() {
        for url in ["shelf://a", "SHELF://a"] {
            let config = read(&[("height", "3"), ("url", url), ("port", "80")]).unwrap();
            let height = ("height".to_owned(), "3".to_owned());
            assert_eq!(config.settings, [height].into());
        }
        for url in ["memory://", "REDIS://h", "shelf", ""] {
            assert!(read(&[("height", "3"), ("url", url)]).is_err(), "{url}");
        }
    }

    #[test]
    fn what_kubernetes_sets_is_no_mistake() {
        let config = read(&[
            ("url", "memory://"),
            ("service_host", "10.0.0.1"),
            ("port", "tcp://10.0.0.1:80"),
            ("port_80_tcp_addr", "10.0.0.1"),
        ]);
        assert_eq!(config.unwrap().url, "memory://");
        assert!(read(&[("url", "memory://"), ("ports", "80")]).is_err());
    }

    #[test]
    fn mistakes_name_the_variable() {
        let missing = read(&[]).unwrap_err().to_string();
        assert!(missing.contains("POLYLOCK_URL is not set"), "{missing}");
        let malformed = read(&[("url", "memory://"), ("ttl", "5")])
            .unwrap_err()
            .to_string();
        assert!(
            malformed.starts_with("POLYLOCK_TTL: malformed duration"),
            "{malformed}"
        );
        for (field, value) in [
            ("hold", "rows"),
            ("create_table", "no"),
            ("purge_after", "1ms"),
            ("connections", "0"),
        ] {
            let wrong = read(&[("url", "memory://"), (field, value)]);
            let wrong = wrong.unwrap_err().to_string();
            let name = format!("POLYLOCK_{}: ", field.to_ascii_uppercase());
            assert!(wrong.starts_with(&name), "{wrong}");
        }
        let unknown = read(&[("tll", "5s")]).unwrap_err().to_string();
        assert!(
            unknown.contains("POLYLOCK_TLL: known are POLYLOCK_URL, "),
            "{unknown}"
        );
    }
}
