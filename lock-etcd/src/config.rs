//! The configuration of a client: its cluster, namespace and certificates.

use std::fmt;

use lock_core::backend::RedactedUrl;
use lock_core::{KeeperMode, Namespace, Tls};

/// The configuration of a client: the members of the cluster, and the prefix of every key.
///
/// ```
/// use lock_core::Namespace;
/// use lock_etcd::EtcdConfig;
///
/// # fn main() -> lock_core::Result<()> {
/// let namespace = Namespace::new("shop")?;
/// let config = EtcdConfig::new("etcd://etcd1,etcd2,etcd3").with_namespace(namespace);
/// assert_eq!(config.url, "etcd://etcd1,etcd2,etcd3");
/// # Ok(())
/// # }
/// ```
///
#[doc = include_str!("permissions.md")]
#[derive(Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct EtcdConfig {
    /// `etcd://user:password@host1:2379,host2:2379`: user with password and the ports (2379) are
    /// optional. `etcds://` is the same over TLS (cargo feature `tls`), with the servers always
    /// verified. Write an IPv6 address in brackets. Nothing may follow the hosts: other settings
    /// are fields of this type.
    ///
    /// The hosts have to be members of one cluster: locks on two clusters do not exclude each
    /// other. The client tries them in this order, and each may resolve to several addresses.
    ///
    /// In user and password, write characters other than letters, digits and `-._~` as `%` and two
    /// hexadecimal digits.
    pub url: String,
    /// The prefix of every key, joined by a slash. In the prefix, slashes are stored as `%2F` and
    /// percent signs as `%25`. Default: no prefix.
    pub namespace: Namespace,
    /// The runtime on which holds are renewed. Default: the keeper thread, so that an application
    /// that blocks its runtime keeps its locks.
    pub keeper: KeeperMode,
    /// The certificates for `etcds://`; an error with `etcd://`. Read again for every new
    /// connection, so that they can be replaced while the application runs. Default: the platform's
    /// roots, no client certificate.
    pub tls: Tls,
}

impl EtcdConfig {
    /// Creates a configuration for the cluster at `url`, with the defaults of all other settings.
    pub fn new(url: impl Into<String>) -> Self {
        Self {
            url: url.into(),
            namespace: Namespace::none(),
            keeper: KeeperMode::default(),
            tls: Tls::new(),
        }
    }

    /// Sets the prefix of every key.
    #[must_use]
    pub fn with_namespace(mut self, namespace: Namespace) -> Self {
        self.namespace = namespace;
        self
    }

    /// Sets the runtime on which holds are renewed.
    #[must_use]
    pub fn with_keeper(mut self, keeper: KeeperMode) -> Self {
        self.keeper = keeper;
        self
    }

    /// Sets the certificates; the URL has to begin with `etcds://`.
    #[must_use]
    pub fn with_tls(mut self, tls: Tls) -> Self {
        self.tls = tls;
        self
    }
}

impl fmt::Debug for EtcdConfig {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("EtcdConfig")
            .field("url", &RedactedUrl(&self.url))
            .field("namespace", &self.namespace)
            .field("keeper", &self.keeper)
            .field("tls", &self.tls)
            .finish_non_exhaustive()
    }
}
