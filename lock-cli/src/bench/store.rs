//! The measured store.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use percent_encoding::percent_decode_str;
use polylock::{Config, DistributedLock, LockRequest};

use crate::problem::Problem;

/// The URL of the store, and the settings for its use.
#[derive(Clone)]
pub(crate) struct Store {
    pub(crate) url: String,
    pub(crate) hand_off: Option<Duration>,
    /// Prefix of every key, so that no other client uses the same keys.
    prefix: String,
}

/// The parts of a URL that the raw commands need. `polylock::connect` has already validated the
/// URL.
pub(crate) struct Location {
    pub(crate) scheme: String,
    /// The URL without its settings.
    pub(crate) url: String,
    pub(crate) user: Option<(String, String)>,
    pub(crate) hosts: Vec<String>,
    /// The part after the hosts, without the slash.
    pub(crate) path: String,
    pub(crate) settings: HashMap<String, String>,
}

impl Store {
    pub(crate) fn new(url: &str, hand_off: Option<Duration>) -> Self {
        Self {
            url: url.to_owned(),
            hand_off,
            prefix: format!("polylock-bench/{:08x}", fastrand::u32(..)),
        }
    }

    /// Returns the same store at another address.
    pub(crate) fn at(&self, url: String) -> Self {
        Self {
            url,
            ..self.clone()
        }
    }

    /// Connects a new client.
    pub(crate) async fn connect(&self) -> Result<Arc<dyn DistributedLock>, Problem> {
        let mut config = Config::new(&self.url);
        config.hand_off = self.hand_off;
        Ok(polylock::connect(config).await?)
    }

    pub(crate) fn key(&self, name: &str) -> String {
        format!("{}/{name}", self.prefix)
    }

    pub(crate) fn request(&self, name: &str) -> Result<LockRequest, Problem> {
        Ok(LockRequest::exclusive(self.key(name))?)
    }

    /// Returns true if each process would have its own store.
    pub(crate) fn is_memory(&self) -> bool {
        self.location().scheme == "memory"
    }

    /// Returns the name for reports.
    pub(crate) fn name(&self) -> String {
        let location = self.location();
        match location.scheme.trim_end_matches('s') {
            "mysql" => format!("mysql {}", location.mysql_hold()),
            // `redis` has lost its last letter, which means TLS in other schemes.
            "redi" => "redis".to_owned(),
            name => name.to_owned(),
        }
    }

    pub(crate) fn location(&self) -> Location {
        Location::of(&self.url)
    }
}

impl Location {
    fn of(url: &str) -> Self {
        let (scheme, rest) = url.split_once("://").unwrap_or((url, ""));
        let (place, query) = rest.split_once('?').unwrap_or((rest, ""));
        let (authority, path) = place.split_once('/').unwrap_or((place, ""));
        let (user, hosts) = match authority.rsplit_once('@') {
            Some((user, hosts)) => (Some(user), hosts),
            None => (None, authority),
        };
        let decoded = |text| percent_decode_str(text).decode_utf8_lossy().into_owned();
        Self {
            scheme: scheme.to_ascii_lowercase(),
            url: format!("{scheme}://{place}"),
            user: user.map(|user| {
                let (name, password) = user.split_once(':').unwrap_or((user, ""));
                (decoded(name), decoded(password))
            }),
            hosts: hosts.split(',').map(str::to_owned).collect(),
            path: decoded(path),
            settings: form_urlencoded::parse(query.as_bytes())
                .into_owned()
                .collect(),
        }
    }

    /// Returns each host with its port; `usual` is the default port.
    pub(crate) fn addresses(&self, usual: u16) -> Vec<String> {
        let address = |host: &String| match host.rsplit_once(':') {
            Some((_, port)) if port.parse::<u16>().is_ok() => host.clone(),
            Some(_) | None => format!("{host}:{usual}"),
        };
        self.hosts.iter().map(address).collect()
    }

    /// Returns the prefix of each key on the store.
    pub(crate) fn namespace(&self, separator: char) -> String {
        let namespace = self.settings.get("namespace");
        namespace.map_or_else(String::new, |name| format!("{name}{separator}"))
    }

    /// Returns `lease` or `row`.
    pub(crate) fn mysql_hold(&self) -> &str {
        self.settings.get("hold").map_or("lease", String::as_str)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_url_is_taken_apart() {
        let location = Location::of("mysql://a%40b:c@h1,[::1]:2/d?hold=row&connections=3");
        assert_eq!(location.user, Some(("a@b".into(), "c".into())));
        assert_eq!(location.addresses(3306), ["h1:3306", "[::1]:2"]);
        assert_eq!(
            (location.path.as_str(), location.mysql_hold()),
            ("d", "row")
        );
        assert_eq!(location.url, "mysql://a%40b:c@h1,[::1]:2/d");
        assert_eq!(location.settings["connections"], "3");
    }

    #[test]
    fn stores_are_called_by_their_schemes() {
        for (url, name) in [
            ("memory://", "memory"),
            ("redis://h", "redis"),
            ("rediss://h", "redis"),
            ("mysql://h/d", "mysql lease"),
            ("mysqls://h/d?hold=row", "mysql row"),
            ("etcds://h", "etcd"),
            ("zookeeper://h", "zookeeper"),
        ] {
            assert_eq!(Store::new(url, None).name(), name);
        }
    }
}
