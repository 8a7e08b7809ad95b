//! The configuration: the cluster, and how it is connected to.

use std::fmt;

use lock_core::{KeeperMode, Namespace, RedactedUrl, Tls};

/// Where the members of the cluster are, and what stands before every key on it.
///
#[doc = include_str!("permissions.md")]
#[derive(Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct EtcdConfig {
    /// `etcd://user:password@host1:2379,host2:2379`: user with password and the ports (2379) may be
    /// left out. `etcds://` is the same over TLS (cargo feature `tls`), with the servers always
    /// verified. An IPv6 address stands in brackets. Nothing may follow: settings are the other fields
    /// here.
    ///
    /// The hosts have to be members of one cluster: locks on two clusters exclude nobody. They are tried
    /// in this order, and each may name several addresses.
    ///
    /// Other characters than letters, digits and `-._~` in user or password are written as `%`
    /// and two hexadecimal digits.
    pub url: String,
    /// The prefix of every key, joined by a slash; slashes of its own are written `%2F`, and
    /// percent signs `%25`. Default: nothing.
    pub namespace: Namespace,
    /// Where holds are renewed. Default: the keeper thread, so that an application that blocks its
    /// runtime keeps its locks.
    pub keeper: KeeperMode,
    /// The certificates of an `etcds://` connection; with `etcd://` they are an error. Read again for
    /// every new connection, so that they can be replaced while we run. Default: the platform's roots,
    /// no client certificate.
    pub tls: Tls,
}

impl EtcdConfig {
    /// The cluster at `url`, without a namespace and without certificates of its own.
    pub fn new(url: impl Into<String>) -> Self {
        Self {
            url: url.into(),
            namespace: Namespace::none(),
            keeper: KeeperMode::default(),
            tls: Tls::new(),
        }
    }

    /// Puts `namespace` before every key.
    #[must_use]
    pub fn with_namespace(mut self, namespace: Namespace) -> Self {
        self.namespace = namespace;
        self
    }

    /// Renews holds at `place`.
    #[must_use]
    pub fn with_keeper(mut self, place: KeeperMode) -> Self {
        self.keeper = place;
        self
    }

    /// Uses these certificates; the URL has to be an `etcds://` one.
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
