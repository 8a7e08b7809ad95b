//! The configuration of a client: its ensemble, user, namespace and certificates.

use std::fmt;

use lock_core::backend::RedactedUrl;
use lock_core::{KeeperMode, Namespace, Result, Tls};

use crate::error::config_error;
use crate::url::Location;

/// The configuration of a client: the servers of the ensemble, and the node above all locks.
///
/// ```
/// use lock_zookeeper::ZooKeeperConfig;
///
/// let config = ZooKeeperConfig::new("zk1:2181,zk2:2181").with_chroot("/app/locks");
/// assert_eq!(config.chroot, "/app/locks");
/// ```
///
#[doc = include_str!("permissions.md")]
#[derive(Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct ZooKeeperConfig {
    /// The servers of one ensemble: `host1:2181,host2:2181,host3:2181`. Ports are optional;
    /// default: 2181. Write an IPv6 address in brackets.
    pub servers: String,
    /// The node above all locks, such as `/app/locks`. The client creates it if it is missing, and
    /// never deletes it. Default: the root.
    pub chroot: String,
    /// The user, as `user:password` of the scheme `digest`. Only this user may use the nodes that
    /// the client creates. Default: no user, and every client may change the nodes.
    pub auth: Option<String>,
    /// The prefix of every key: a node of this name, with escaped slashes. Default: no prefix.
    pub namespace: Namespace,
    /// The runtime of the sessions, on which holds are renewed. Default: the keeper thread, so that
    /// an application that blocks its runtime keeps its locks.
    pub keeper: KeeperMode,
    /// The certificates; setting them turns TLS on (cargo feature `tls`). The client always
    /// verifies the server, and reads the files for every new connection. Default: none,
    /// connections in plain text.
    pub tls: Option<Tls>,
}

impl ZooKeeperConfig {
    /// Creates a configuration for the ensemble of `servers`, with the defaults of all other
    /// settings.
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

    /// Reads the configuration of an ensemble from `url`, with the defaults of all other settings.
    ///
    /// The URL is `zookeeper://user:password@host1:2181,host2:2181/chroot`. User with password,
    /// ports (2181) and chroot are optional. `zookeepers://` turns TLS on, and the client always
    /// verifies the servers. Write an IPv6 address in brackets. In user, password and chroot, write
    /// characters other than letters, digits and `-._~` as `%` and two hexadecimal digits.
    ///
    /// # Errors
    ///
    /// [`Config`](lock_core::ErrorKind::Config) for a malformed URL. The message repeats no part of
    /// the URL.
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

    /// Sets the certificates, if the URL turned TLS on.
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

    /// Sets the runtime of the sessions, on which holds are renewed.
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
        // `servers` may contain a user and password by mistake, which `connect` refuses.
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
