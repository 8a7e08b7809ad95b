//! How to reach the server.

use std::fmt;

use lock_core::{Namespace, Tls};

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
    /// Other characters than letters, digits and `-._~` in user or password are written as `%`
    /// and two hexadecimal digits.
    pub url: String,
    /// What stands before every key, joined by a colon. Default: nothing.
    ///
    /// Namespaces that are the beginning of one another up to a colon meet: `shop` with the key
    /// `eu:42` is `shop:eu` with the key `42`. They exclude each other, but count their tokens apart.
    pub namespace: Namespace,
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
            tls: Tls::new(),
        }
    }

    /// Puts `namespace` before every key.
    #[must_use]
    pub fn with_namespace(mut self, namespace: Namespace) -> Self {
        self.namespace = namespace;
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
        // The url may hold a password, and not only where one expects it.
        let (_, rest) = self.url.split_once("://").unwrap_or_default();
        let host = rest.rsplit('@').next().unwrap_or_default();
        let host = host.split(['?', '#']).next().unwrap_or_default();
        f.debug_struct("RedisConfig")
            .field("host", &host)
            .field("namespace", &self.namespace)
            .field("tls", &self.tls)
            .finish_non_exhaustive()
    }
}
