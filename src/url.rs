//! The URL of a store: its scheme selects the backend, its query holds settings.

use std::collections::HashSet;
use std::fmt;

use lock_core::backend::RedactedUrl;

use crate::backends::is_built_in;
use crate::fields::Field;
use crate::{Config, Error, ErrorKind, Result};

/// A parsed store URL, without its settings.
#[derive(Clone)]
pub(crate) struct StoreUrl {
    /// The scheme in lower case, `redis` of `redis://host`.
    pub(crate) scheme: String,
    /// The part between `://` and the query.
    pub(crate) location: String,
    /// The names in the query.
    pub(crate) named: HashSet<String>,
}

impl StoreUrl {
    /// Parses the URL of `config` and moves its settings into `config`.
    pub(crate) fn take_from(config: &mut Config) -> Result<Self> {
        refuse_wrapped(&config.url)?;
        let is_scheme = |text: &str| {
            text.chars()
                .all(|c| c.is_ascii_alphanumeric() || "+-.".contains(c))
        };
        let parts = config.url.split_once("://");
        let Some((scheme, rest)) = parts.filter(|(scheme, _)| is_scheme(scheme)) else {
            return Err(Error::new(
                ErrorKind::Config,
                // The error does not repeat the URL: without a scheme, any part may be a password.
                "the lock url has no scheme: write it like memory:// or redis://host:6379",
            ));
        };
        let (location, query) = rest.split_once('?').unwrap_or((rest, ""));
        let mut url = Self {
            scheme: scheme.to_ascii_lowercase(),
            location: location.to_owned(),
            named: HashSet::new(),
        };
        if query.contains('@') {
            // The query is likely a part of a password, so the error does not repeat it.
            return Err(Error::new(
                ErrorKind::Config,
                "the lock url has an @ after a question mark: write ? as %3F and @ as %40 in passwords and settings",
            ));
        }
        refuse_bare_slash(&url.scheme, location)?;
        let query = query.to_owned();
        for (name, value) in form_urlencoded::parse(query.as_bytes()) {
            if !url.named.insert(name.clone().into_owned()) {
                return Err(Error::new(
                    ErrorKind::Config,
                    format!("the lock url has {name:?} twice: leave one of them out"),
                ));
            }
            // The replacement character stands for bytes that are not UTF-8.
            if name.contains('\u{fffd}') || value.contains('\u{fffd}') {
                return Err(Error::new(
                    ErrorKind::Config,
                    format!("the lock url has % codes in {name:?} that are no text in UTF-8"),
                ));
            }
            match Field::named(&name) {
                // A setting that is already set wins over the query.
                Some(field) => field.fill(config, &name, &value)?,
                None => {
                    let settings = &mut config.settings;
                    settings
                        .entry(name.into_owned())
                        .or_insert_with(|| value.into_owned());
                }
            }
        }
        Ok(url)
    }
}

/// A URL for `Debug` with passwords removed, including URLs of registered backends.
pub(crate) struct HiddenUrl<'a>(pub(crate) &'a str);

impl fmt::Debug for HiddenUrl<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self(url) = self;
        let bare_user = url.split_once("://").filter(|(scheme, rest)| {
            let user = rest.rsplit_once('@').map(|(user, _)| user);
            !is_built_in(scheme) && user.is_some_and(|user| !user.contains(':'))
        });
        match bare_user {
            // A userinfo without a colon may be a token. Behind a colon it is hidden as a password.
            Some((scheme, rest)) => RedactedUrl(&format!("{scheme}://:{rest}")).fmt(f),
            None => RedactedUrl(url).fmt(f),
        }
    }
}

/// Rejects quotes, white space and `jdbc:` around a URL, as copied from other configurations.
fn refuse_wrapped(url: &str) -> Result<()> {
    let problem = if url.starts_with(['"', '\'', '`']) || url.ends_with(['"', '\'', '`']) {
        "the lock url is in quotation marks: leave them out, since they are read as part of it"
    } else if url.trim() != url {
        "the lock url begins or ends with white space: leave it out"
    } else if url.len() > 5 && url.as_bytes()[..5].eq_ignore_ascii_case(b"jdbc:") {
        "the lock url begins with jdbc: leave that out, and put user and password before the host: mysql://user:password@host:3306/database"
    } else {
        return Ok(());
    };
    Err(Error::new(ErrorKind::Config, problem))
}

/// Rejects a bare `/` in user or password, where the URL's host would end.
fn refuse_bare_slash(scheme: &str, location: &str) -> Result<()> {
    let Some((authority, path)) = location.split_once('/') else {
        return Ok(());
    };
    let url = format!("{scheme}://{location}");
    let is_cut_off =
        path.contains('@') && !authority.contains('@') && RedactedUrl(&url).lacks_host();
    // ZooKeeper nodes and databases may have an `@` in their names, but then the port is a number.
    if scheme == "memory" || !is_cut_off {
        return Ok(());
    }
    Err(Error::new(
        ErrorKind::Config,
        // The error does not repeat the URL: the part that parses as the host belongs to the
        // password.
        "the lock url has a / in its user or password: write / as %2F there, and other characters than letters, digits and -._~ by their % codes, too",
    ))
}

#[cfg(test)]
mod tests {
    use std::path::Path;
    use std::time::Duration;

    use super::*;
    use crate::Registry;
    use crate::fields::refuse_unknown;

    #[test]
    fn query_settings_move_into_the_config_unless_set_there() {
        let mut config =
            Config::new("REDIS://h:1/2?namespace=a%20b&ttl=5s&request_wait=1s&tls=x&tls_ca=%2Fa+b");
        config.ttl = Some(Duration::from_secs(9));
        let url = StoreUrl::take_from(&mut config).unwrap();
        assert_eq!(
            (url.scheme.as_str(), url.location.as_str()),
            ("redis", "h:1/2")
        );
        assert_eq!(config.namespace.as_deref(), Some("a b"));
        assert_eq!(config.ttl, Some(Duration::from_secs(9)));
        assert_eq!(config.request_wait, Some(Duration::from_secs(1)));
        assert_eq!(config.tls_ca.as_deref(), Some(Path::new("/a b")));
        let registry = Registry::new();
        let refusal = |scheme: &str| {
            let backend = registry.backend(scheme).unwrap();
            let refused = refuse_unknown(&config, backend, &url);
            refused.unwrap_err().to_string()
        };
        assert_eq!(
            refusal("redis"),
            "unknown setting \"tls\" in the url of redis: known are namespace, ttl, request_wait, lock_delay, hand_off, keeper, tls_ca, tls_cert, tls_key"
        );
        let error = refusal("mysql");
        assert!(
            error.ends_with("tls_key, hold, table, create_table, purge_after, connections"),
            "{error}"
        );
    }

    #[test]
    fn mistakes_are_told_with_what_to_write() {
        for (url, advice) in [
            ("\"redis://h\"", "is in quotation marks: leave them out"),
            ("'redis://h'", "is in quotation marks: leave them out"),
            ("redis://h\n", "begins or ends with white space"),
            ("jdbc:mysql://h/db", "begins with jdbc: leave that out"),
            ("redis://u:a/b@h", "write / as %2F"),
            ("mysql://u:a+/=@h/db", "write / as %2F"),
            ("redis://h?namespace=%ff", "\"namespace\" that are no text"),
            ("redis://h?ttl=1s&ttl=2s", "has \"ttl\" twice"),
            ("redis://h?x=1&x=2", "has \"x\" twice"),
            ("h:6379", "has no scheme"),
        ] {
            let error = StoreUrl::take_from(&mut Config::new(url)).err();
            let error = error.expect(url).to_string();
            assert!(error.contains(advice), "{url}: {error}");
            assert!(!error.contains("a/b") && !error.contains("a+"), "{error}");
        }
        for url in [
            "zookeeper://h:2181/a@b",
            "mysql://u:a+b=@h/db",
            "redis://u:p@h/0",
        ] {
            assert!(StoreUrl::take_from(&mut Config::new(url)).is_ok(), "{url}");
        }
    }
}
