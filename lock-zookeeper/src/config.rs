//! The configuration: the ensemble, and how it is connected to.

use std::fmt;

use lock_core::{KeeperMode, Namespace, RedactedUrl, Tls};

/// Where the ensemble is, and below which node the locks are.
///
#[doc = include_str!("permissions.md")]
#[derive(Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct ZooKeeperConfig {
    /// The servers of one ensemble: `host1:2181,host2:2181,host3:2181`. Ports (2181) may be left out.
    /// An IPv6 address stands in brackets.
    pub servers: String,
    /// The node below which everything is, such as `/app/locks`. It is created if it is missing, and
    /// never removed. Default: the root.
    pub chroot: String,
    /// `user:password` of the scheme `digest`. Nodes that we create are then for this user only.
    /// Default: nobody, and nodes that everybody may change.
    pub auth: Option<String>,
    /// The prefix of every key: a node of this name, in which slashes are escaped. Default:
    /// nothing.
    pub namespace: Namespace,
    /// Where sessions live and holds are renewed. Default: the keeper thread, so that an application
    /// that blocks its runtime keeps its locks.
    pub keeper: KeeperMode,
    /// Turns TLS on (cargo feature `tls`), with these certificates; the server is always verified.
    /// Read again for every new session. Default: none, connections in plain text.
    pub tls: Option<Tls>,
}

impl ZooKeeperConfig {
    /// The ensemble of `servers` with every default.
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

    /// Puts everything below the node `chroot`.
    #[must_use]
    pub fn with_chroot(mut self, chroot: impl Into<String>) -> Self {
        self.chroot = chroot.into();
        self
    }

    /// Shows `user:password` to the servers.
    #[must_use]
    pub fn with_auth(mut self, auth: impl Into<String>) -> Self {
        self.auth = Some(auth.into());
        self
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

    /// Connects over TLS, with these certificates.
    #[must_use]
    pub fn with_tls(mut self, tls: Tls) -> Self {
        self.tls = Some(tls);
        self
    }
}

impl fmt::Debug for ZooKeeperConfig {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let user = self.auth.as_deref().and_then(|auth| auth.split_once(':'));
        // A user may stand before them by mistake, which is refused later.
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
