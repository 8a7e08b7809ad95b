//! How to reach the server.

use std::fmt;

use lock_core::{KeeperPlace, Namespace};

/// Where the server is, and what stands before every key on it.
#[derive(Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct RedisConfig {
    /// `redis://user:password@host:6379/0`: user, password, port (6379) and database (0) may be
    /// left out. `unix:///path/to/socket` works as well.
    pub url: String,
    /// What stands before every key, joined by a colon; colons of its own are written `%3A`, and
    /// percent signs `%25`. Default: nothing.
    ///
    /// Tokens are counted for each namespace. A client without one can name the keys of all others
    /// and excludes them, but its tokens cannot be compared with theirs.
    pub namespace: Namespace,
    /// Where holds are renewed. Default: the keeper thread, so that an application that blocks its
    /// runtime keeps its locks.
    pub keeper: KeeperPlace,
}

impl RedisConfig {
    /// The server at `url`, without a namespace.
    pub fn new(url: impl Into<String>) -> Self {
        Self {
            url: url.into(),
            namespace: Namespace::none(),
            keeper: KeeperPlace::default(),
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
    pub fn with_keeper(mut self, place: KeeperPlace) -> Self {
        self.keeper = place;
        self
    }
}

impl fmt::Debug for RedisConfig {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // The url may hold a password, and not only where one expects it.
        let host = self.url.rsplit('@').next().unwrap_or_default();
        let host = host.split('?').next().unwrap_or_default();
        f.debug_struct("RedisConfig")
            .field("host", &host)
            .field("namespace", &self.namespace)
            .field("keeper", &self.keeper)
            .finish_non_exhaustive()
    }
}
