//! The configuration: the ensemble, and how it is connected to.

use std::fmt;

use lock_core::backend::RedactedUrl;
use lock_core::{KeeperMode, Namespace, Result, Tls};

use crate::error::config_error;
use crate::url::Location;

/// The configuration: the servers of the ensemble, and the node above all locks.
///
#[doc = include_str!("permissions.md")]
#[derive(Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct ZooKeeperConfig {
    /// The servers of one ensemble: `host1:2181,host2:2181,host3:2181`. Ports (2181) are optional.
    /// Write an IPv6 address in brackets.
    pub servers: String,
    /// The node above all locks, such as `/app/locks`. It is created if it is missing, and never
    /// deleted. Default: the root.
    pub chroot: String,
    /// `user:password` of the scheme `digest`. Nodes that the client creates are then for this user
    /// only. Default: no user, and nodes that every client may change.
    pub auth: Option<String>,
    /// The prefix of every key: a node of this name, with escaped slashes. Default: nothing.
    pub namespace: Namespace,
    /// Where sessions live and holds are renewed. Default: the keeper thread, so that an
    /// application that blocks its runtime keeps its locks.
    pub keeper: KeeperMode,
    /// Turns TLS on (cargo feature `tls`), with these certificates; the server is always verified.
    /// Read again for every new session. Default: none, connections in plain text.
    pub tls: Option<Tls>,
}

impl ZooKeeperConfig {
    /// Creates a configuration for the ensemble of `servers`, with the default of every other
    /// setting.
    pub fn new(servers: impl Into<String>) -> Self {
        Self {
            servers: servers.into(),
            chroot: String::new(),
            auth: None,
            namespace: Namespace::none(),
            keeper: KeeperMode::default(),
            tls: None,
        }
    }

    /// Returns the configuration of the ensemble at `url`, with every other default.
    ///
    /// The URL is `zookeeper://user:password@host1:2181,host2:2181/chroot`: user with password, ports (2181) and
    /// chroot may be left out. `zookeepers://` is the same over TLS, with the servers always verified. An IPv6
    /// address stands in brackets. Other characters than letters, digits and `-._~` in user, password or chroot are
    /// written as `%` and two hexadecimal digits.
    ///
    /// # Errors
    ///
    /// [`Config`](lock_core::ErrorKind::Config) for a malformed URL, of which nothing is repeated.
    ///
    /// # Examples
    ///
    /// ```
    /// use lock_zookeeper::ZooKeeperConfig;
    ///
    /// # fn main() -> lock_core::Result<()> {
    /// let config = ZooKeeperConfig::from_url("zookeeper://app:p%40ss@zk1,zk2:2182/app/locks")?;
    /// let same = ZooKeeperConfig::new("zk1:2181,zk2:2182")
    ///     .with_auth("app:p@ss")
    ///     .with_chroot("/app/locks");
    /// assert_eq!(config, same);
    /// # Ok(())
    /// # }
    /// ```
    pub fn from_url(url: &str) -> Result<Self> {
        let location = Location::parse(url)?;
        Ok(Self {
            chroot: location.chroot,
            auth: location.auth,
            tls: location.is_secure.then(Tls::new),
            ..Self::new(location.servers)
        })
    }

    /// Uses these certificates, if the URL turned TLS on.
    ///
    /// # Errors
    ///
    /// [`Config`](lock_core::ErrorKind::Config) if a certificate is given and TLS is off.
    pub fn with_certificates(mut self, tls: Tls) -> Result<Self> {
        match (&self.tls, tls.first_given()) {
            (Some(_), _) => self.tls = Some(tls),
            (None, None) => {}
            (None, Some(setting)) => {
                return Err(config_error(format!(
                    "{setting} is set, and zookeeper:// has no TLS: use zookeepers://, or leave {setting} out"
                )));
            }
        }
        Ok(self)
    }

    /// Sets the node above all locks.
    #[must_use]
    pub fn with_chroot(mut self, chroot: impl Into<String>) -> Self {
        self.chroot = chroot.into();
        self
    }

    /// Sets the user, as `user:password`.
    #[must_use]
    pub fn with_auth(mut self, auth: impl Into<String>) -> Self {
        self.auth = Some(auth.into());
        self
    }

    /// Sets the prefix of every key.
    #[must_use]
    pub fn with_namespace(mut self, namespace: Namespace) -> Self {
        self.namespace = namespace;
        self
    }

    /// Sets where sessions live and holds are renewed.
    #[must_use]
    pub fn with_keeper(mut self, keeper: KeeperMode) -> Self {
        self.keeper = keeper;
        self
    }

    /// Turns TLS on, with these certificates.
    #[must_use]
    pub fn with_tls(mut self, tls: Tls) -> Self {
        self.tls = Some(tls);
        self
    }
}

impl fmt::Debug for ZooKeeperConfig {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let user = self.auth.as_deref().and_then(|auth| auth.split_once(':'));
        // A user may stand before the servers by mistake, which `connect` refuses.
        let url = format!("zookeeper://{}", self.servers);
        f.debug_struct("ZooKeeperConfig")
            .field("url", &RedactedUrl(&url))
            .field("chroot", &self.chroot)
            .field("user", &user.map(|(user, _)| user))
            .field("namespace", &self.namespace)
            .field("keeper", &self.keeper)
            .field("tls", &self.tls)
            .finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use lock_core::ErrorKind;

    use super::*;

    #[test]
    fn every_part_of_a_url_arrives() {
        let plain = ZooKeeperConfig::from_url("zookeeper://a,b").unwrap();
        assert_eq!(plain, ZooKeeperConfig::new("a:2181,b:2181"));
        let all = ZooKeeperConfig::from_url("zookeepers://l%40x:p%2Fw@a:1,[::1]/app/locks");
        let expected = ZooKeeperConfig::new("a:1,[::1]:2181")
            .with_chroot("/app/locks")
            .with_auth("l@x:p/w")
            .with_tls(Tls::new());
        assert_eq!(all.unwrap(), expected);
    }

    #[test]
    fn certificates_belong_to_tls() {
        let certificates = || Tls::new().with_ca("/ca");
        let secure = ZooKeeperConfig::from_url("zookeepers://a").unwrap();
        let secure = secure.with_certificates(certificates()).unwrap();
        assert_eq!(secure.tls, Some(certificates()));
        let plain = || ZooKeeperConfig::from_url("zookeeper://a").unwrap();
        assert_eq!(plain().with_certificates(Tls::new()).unwrap(), plain());
        let error = plain().with_certificates(certificates()).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Config);
        assert!(error.to_string().contains("use zookeepers://"), "{error}");
    }
}
