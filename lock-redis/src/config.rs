//! The configuration of the Redis backend.

use std::fmt;

use lock_core::backend::RedactedUrl;
use lock_core::{KeeperMode, Namespace, Tls};

/// The server's address, the prefix of keys, and TLS.
///
#[doc = include_str!("permissions.md")]
#[derive(Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct RedisConfig {
    /// The URL: `redis://user:password@host:6379/0`. User, password, port (6379) and database (0)
    /// are optional. `rediss://` is the same over TLS (cargo feature `tls`), with the server
    /// verified. `unix:///path/to/socket` works as well.
    ///
    /// The host has to be one server, or resolve to the present master: locks on two servers do not
    /// exclude each other.
    ///
    /// In user and password, write characters other than letters, digits and `-._~` as `%` and two
    /// hexadecimal digits.
    pub url: String,
    /// The prefix of every key, joined by a colon. Default: none.
    ///
    /// Colons in it are stored as `%3A`, and percent signs as `%25`. Tokens are counted per
    /// namespace. A client without a namespace can lock the keys of other namespaces, but its
    /// tokens are not comparable with theirs.
    pub namespace: Namespace,
    /// The runtime that renews holds. Default: the keeper thread, so that an application that
    /// blocks its runtime keeps its locks.
    pub keeper: KeeperMode,
    /// The certificates of a `rediss://` connection; an error with any other URL. Default: the
    /// platform's roots, no client certificate.
    ///
    /// The files are read for every new connection, so they can be replaced while the client runs.
    pub tls: Tls,
}

impl RedisConfig {
    /// Creates a configuration for the server at `url` with defaults.
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

    /// Sets the runtime that renews holds.
    #[must_use]
    pub fn with_keeper(mut self, keeper: KeeperMode) -> Self {
        self.keeper = keeper;
        self
    }

    /// Sets the certificates; the URL has to be `rediss://`.
    #[must_use]
    pub fn with_tls(mut self, tls: Tls) -> Self {
        self.tls = tls;
        self
    }
}

/// Creates a configuration without a URL, for `RedisLock::from_client`.
impl Default for RedisConfig {
    fn default() -> Self {
        Self::new("")
    }
}

impl fmt::Debug for RedisConfig {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RedisConfig")
            .field("url", &RedactedUrl(&self.url))
            .field("namespace", &self.namespace)
            .field("keeper", &self.keeper)
            .field("tls", &self.tls)
            .finish_non_exhaustive()
    }
}
