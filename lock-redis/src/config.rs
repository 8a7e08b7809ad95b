//! The configuration: the server, and how it is connected to.

use std::fmt;

use lock_core::backend::RedactedUrl;
use lock_core::{KeeperMode, Namespace, Tls};

/// Where the server is, and what stands before every key on it.
///
#[doc = include_str!("permissions.md")]
#[derive(Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct RedisConfig {
    /// `redis://user:password@host:6379/0`: user, password, port (6379) and database (0) may be
    /// left out. `rediss://` is the same over TLS (cargo feature `tls`), with the server always
    /// verified. `unix:///path/to/socket` works as well.
    ///
    /// The host has to be one server, or name the one that is the master just now: locks on two
    /// servers exclude no other client.
    ///
    /// Other characters than letters, digits and `-._~` in user or password are written as `%`
    /// and two hexadecimal digits.
    pub url: String,
    /// The prefix of every key, joined by a colon; colons of its own are written `%3A`, and
    /// percent signs `%25`. Default: nothing.
    ///
    /// Tokens are counted for each namespace. A client without one can name the keys of all others
    /// and excludes them, but its tokens cannot be compared with theirs.
    pub namespace: Namespace,
    /// Where holds are renewed. Default: the keeper thread, so that an application that blocks its
    /// runtime keeps its locks.
    pub keeper: KeeperMode,
    /// The certificates of a `rediss://` connection; with any other URL they are an error. Read
    /// again for every new connection, so that they can be replaced while we run. Default: the
    /// platform's roots, no client certificate.
    pub tls: Tls,
}

impl RedisConfig {
    /// The server at `url`, without a namespace and without certificates of its own.
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

    /// Uses these certificates; the URL has to be a `rediss://` one.
    #[must_use]
    pub fn with_tls(mut self, tls: Tls) -> Self {
        self.tls = tls;
        self
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
