//! The URL of a store: its scheme chooses the backend, its query holds settings.

use std::collections::HashSet;

use crate::backends::Backend;
use crate::fields::{FIELDS, Field, advice_on};
use crate::{Config, Error, ErrorKind, Result};

/// A store URL taken apart, its settings removed.
pub(crate) struct StoreUrl {
    /// `redis` of `redis://host`.
    pub(crate) scheme: String,
    /// What lies between `://` and the query.
    pub(crate) location: String,
    /// The first name in the query that is no field's.
    unknown: Option<String>,
}

impl StoreUrl {
    /// Takes the URL of `config` apart and moves its settings into `config`.
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
                // Not repeated here: without a scheme there is no telling what is a password.
                "the lock url has no scheme: write it like memory:// or redis://host:6379",
            ));
        };
        let (location, query) = rest.split_once('?').unwrap_or((rest, ""));
        let mut url = Self {
            scheme: scheme.to_ascii_lowercase(),
            location: location.to_owned(),
            unknown: None,
        };
        if query.contains('@') {
            // It is likely part of a password, so it is not repeated here.
            return Err(Error::new(
                ErrorKind::Config,
                "the lock url has an @ after a question mark: write ? as %3F and @ as %40 in passwords and settings",
            ));
        }
        refuse_bare_slash(&url.scheme, location)?;
        let query = query.to_owned();
        let mut named = HashSet::new();
        for (name, value) in form_urlencoded::parse(query.as_bytes()) {
            if !named.insert(name.clone()) {
                return Err(Error::new(
                    ErrorKind::Config,
                    format!("the lock url has {name:?} twice: leave one of them out"),
                ));
            }
            match Field::named(&name) {
                // Fields that are set already win over the query.
                Some(field) => field.fill(config, &name, &value)?,
                None => {
                    url.unknown.get_or_insert_with(|| name.into_owned());
                }
            }
        }
        Ok(url)
    }

    /// As backends take it.
    #[cfg(any(feature = "etcd", feature = "mysql", feature = "redis"))]
    pub(crate) fn without_settings(&self) -> String {
        format!("{}://{}", self.scheme, self.location)
    }

    /// Refuses a setting in the query that nobody knows, and names those that the backend has.
    pub(crate) fn refuse_unknown(&self, backend: Backend) -> Result<()> {
        let Some(name) = &self.unknown else {
            return Ok(());
        };
        let known: Vec<&str> = FIELDS
            .iter()
            .filter(|field| field.is_of(backend))
            .map(|field| field.name)
            .collect();
        Err(Error::new(
            ErrorKind::Config,
            format!(
                "unknown setting {name:?} in the url of {}: known are {}{}",
                self.scheme,
                known.join(", "),
                advice_on(name)
            ),
        ))
    }
}

/// Refuses a URL with something around it that environment files and JDBC put there.
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

/// Refuses a password with a `/` in it, which would end the host and send the rest elsewhere.
fn refuse_bare_slash(scheme: &str, location: &str) -> Result<()> {
    let Some((authority, path)) = location.split_once('/') else {
        return Ok(());
    };
    let is_cut_off = path.contains('@') && !authority.contains('@') && has_password(authority);
    // Nodes of ZooKeeper may have an @ in their names, and so may databases, but then a port is a number.
    if scheme == "memory" || !is_cut_off {
        return Ok(());
    }
    Err(Error::new(
        ErrorKind::Config,
        // Not repeated here: what was taken for the host is part of the password.
        "the lock url has a / in its user or password: write / as %2F there, and other characters than letters, digits and -._~ by their % codes, too",
    ))
}

/// Whether a host is followed by something that is no port, as in `user:password` without an `@`.
fn has_password(authority: &str) -> bool {
    authority.split(',').any(|host| {
        let after_address = host.rsplit(']').next().unwrap_or(host);
        let port = after_address.split_once(':').map(|(_, port)| port);
        port.is_some_and(|port| !port.bytes().all(|byte| byte.is_ascii_digit()))
    })
}

/// `url` without its password, its query and its fragment, which may hold one.
///
/// What other programs take for a connection string may have its password anywhere.
pub(crate) fn redacted(url: &str) -> String {
    if let Some(foreign) = foreign_part(url) {
        // Before an @ everything may be a part of a password.
        let shown = match url[foreign..].contains('@') {
            true => &url[..url.find("://").map_or(0, |at| at + 3)],
            false => &url[..foreign],
        };
        return format!("{}***", redacted(shown));
    }
    let start = url.find("://").map_or(0, |at| at + 3);
    // A password may hold an unescaped `@`, `/` or `?`: rather hide too much than too little.
    let host = url[start..].rfind('@').map_or(start, |at| start + at + 1);
    // Redis takes what stands alone there for a user, and people write the password.
    let is_redis = ["redis://", "rediss://"]
        .iter()
        .any(|scheme| url.starts_with(scheme));
    let user = match url[start..host].split(':').next() {
        Some(_) if host > start && is_redis && !url[start..host].contains(':') => "***@".to_owned(),
        Some(user) if host > start => format!("{}:***@", user.trim_end_matches('@')),
        _ => String::new(),
    };
    let rest = &url[host..];
    let authority = &rest[..rest.find(['/', '?', '#']).unwrap_or(rest.len())];
    if host == start && has_password(authority) {
        // The @ and the host were forgotten, so this is a user and a password.
        let user = authority.split(':').next().unwrap_or_default();
        return format!("{}{user}:***", &url[..start]);
    }
    let (location, hidden) = match rest.find(['?', '#']) {
        Some(end) if end + 1 < rest.len() => (&rest[..=end], "***"),
        Some(end) => (&rest[..end], ""),
        None => (rest, ""),
    };
    format!("{}{user}{location}{hidden}", &url[..start])
}

/// Where the words of another program's connection string begin, such as `;password=`.
fn foreign_part(url: &str) -> Option<usize> {
    let before_query = &url[..url.find('?').unwrap_or(url.len())];
    if !url.contains("://") && before_query.contains('=') {
        return Some(0);
    }
    let words = before_query.match_indices([';', ',', '(']);
    words.map(|(at, _)| at).find(|at| {
        before_query[*at..].starts_with(['(', ';']) || is_assignment(&before_query[at + 1..])
    })
}

/// Whether a text begins with a word that something is assigned to.
fn is_assignment(text: &str) -> bool {
    let word = text.split('=').next().unwrap_or_default();
    word.len() < text.len()
        && word
            .bytes()
            .all(|byte| byte.is_ascii_alphabetic() || byte == b' ')
}

#[cfg(test)]
mod tests {
    use std::path::Path;
    use std::time::Duration;

    use super::*;

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
        let error = url.refuse_unknown(Backend::Redis).unwrap_err().to_string();
        assert_eq!(
            error,
            "unknown setting \"tls\" in the url of redis: known are namespace, ttl, request_wait, lock_delay, hand_off, keeper, tls_ca, tls_cert, tls_key"
        );
        let error = url.refuse_unknown(Backend::MySql).unwrap_err().to_string();
        assert!(
            error.ends_with("tls_key, hold, table, create_table, purge_after, connections"),
            "{error}"
        );
    }

    #[test]
    fn passwords_are_hidden_wherever_they_stand() {
        for (url, shown) in [
            ("redis://host:6379/0", "redis://host:6379/0"),
            ("redis://user:secret@host/0", "redis://user:***@host/0"),
            ("redis://:secret@host", "redis://:***@host"),
            ("redis://user:se/cr@et@host", "redis://user:***@host"),
            ("user:secret@host", "user:***@host"),
            ("redis://user:top?secret@host", "redis://user:***@host"),
            (
                "unix:///run/redis.sock?pass=secret",
                "unix:///run/redis.sock?***",
            ),
            ("memory://?namespace=shop", "memory://?***"),
            ("mysql://u:secret@h/d#secret?", "mysql://u:***@h/d#***"),
            ("memory://?", "memory://"),
            ("mysql://u:secret", "mysql://u:***"),
            ("mysql://u:secret/db?ttl=1s", "mysql://u:***"),
            ("u:secret", "u:***"),
            ("etcd://h:1,u:se", "etcd://h:***"),
            ("redis://[::1]:6379/0", "redis://[::1]:6379/0"),
            ("Server=h;Uid=u;Pwd=secret;Database=d", "***"),
            ("host=h port=1 password=secret", "***"),
            ("h:6379,password=secret,ssl=true", "***"),
            ("redis://h:6379,password=secret", "redis://h:6379***"),
            (
                "jdbc:mysql://h/d;user=u;password=secret",
                "jdbc:mysql://h/d***",
            ),
            (
                "jdbc:mysql://address=(host=h)(password=secret)/d",
                "jdbc:mysql://address=***",
            ),
            ("redis://user:12;secret@host", "redis://***"),
            ("redis://h:6379,password=sec@ret", "redis://***"),
            ("redis://secret@host", "redis://***@host"),
            ("mysql://user@host/d", "mysql://user:***@host/d"),
            ("etcd://h1:2379,h2:2379", "etcd://h1:2379,h2:2379"),
        ] {
            assert_eq!(redacted(url), shown);
        }
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
