//! The configuration: the ensemble, and how it is connected to.

use std::fmt;

use lock_core::{KeeperMode, Namespace, RedactedUrl, Tls};

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
