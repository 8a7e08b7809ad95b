//! The configuration: the server, its tables, and the kind of holds.

use std::fmt;
use std::time::Duration;

#[doc(inline)]
pub use lock_core::MySqlHold;
use lock_core::backend::{HumanDuration, RedactedUrl};
use lock_core::{KeeperMode, Namespace, Result, Tls};

use crate::error::config_error;

/// Default of `connections` on each runtime, for leases and for row locks.
const CONNECTIONS_OF_LEASES: u32 = 8;
const CONNECTIONS_OF_ROWS: u32 = 64;

/// Minimum of `purge_after`. A shorter one would purge and recreate keys all the time.
const PURGE_AFTER_MIN: Duration = Duration::from_secs(1);

/// The configuration: the server, its tables, and the kind of holds.
///
/// # Examples
///
/// ```
/// use lock_mysql::{MySqlConfig, MySqlHold};
///
/// let config = MySqlConfig::new("mysqls://locker:password@db.example.com/app");
/// let config = config.with_hold(MySqlHold::Row).with_table("app_locks");
/// assert_eq!(config.hold, MySqlHold::Row);
/// ```
///
#[doc = include_str!("permissions.md")]
#[derive(Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct MySqlConfig {
    /// `mysql://user:password@host:3306/database`: password and port (3306) are optional. The
    /// database has to exist. Write an IPv6 address in brackets. Nothing may follow the database:
    /// other settings are fields of this type. The connection is encrypted if the server supports
    /// TLS, but the server is not verified. `mysqls://` requires TLS and verifies the server.
    ///
    /// The host has to be one server, or name the server that takes writes at the moment. Locks on
    /// two servers do not exclude each other. A Galera cluster counts as one server for
    /// [`MySqlHold::Lease`], as far as the clocks of its nodes agree. If the clocks of two nodes
    /// differ, their clients may hold a key together for that difference. A longer [lock
    /// delay](lock_core::LockRequest::lock_delay) prevents this.
    ///
    /// In user and password, write characters other than letters, digits and `-._~` as `%` and two
    /// hexadecimal digits.
    pub url: String,
    /// The prefix of every key, joined by a colon; colons of its own are written `%3A`, and
    /// percent signs `%25`. Default: nothing.
    pub namespace: Namespace,
    /// The form of a held lock on the server. Default: [`MySqlHold::Lease`].
    pub hold: MySqlHold,
    /// The name of the locks table, optionally preceded by the name of another database and a dot.
    /// Letters, digits and `_`, at most 56. Default: `locks`. A second table stores the holders of
    /// shared locks and permits; its name is the same with `_holders` appended.
    pub table: String,
    /// Creates missing tables at connect, and again if they are dropped later. Default: yes. If the
    /// tables exist, the user needs no right to create them.
    pub create_table: bool,
    /// The time for which a key has to be unused before its row is purged. At least 1 second.
    /// Default: a day; `None`: never. Tokens keep growing across a purge.
    ///
    /// A user without the right to delete rows of the locks table purges nothing. Another program
    /// that locks rows by `SELECT … FOR UPDATE` has to create the row in the same transaction.
    pub purge_after: Option<Duration>,
    /// The maximum number of connections for takes and holds. At least 1. Default: 8 on each
    /// runtime with [`MySqlHold::Lease`], and 64 with [`MySqlHold::Row`].
    ///
    /// A lease needs a connection only during a request. With [`MySqlHold::Row`], each held lock
    /// and each key with waiters needs a connection. The client opens up to eight more for
    /// renewals, releases and clean-ups, and three for releases on each runtime.
    pub connections: Option<u32>,
    /// Where holds are renewed. Default: the keeper thread, so that an application that blocks its
    /// runtime keeps its locks.
    pub keeper: KeeperMode,
    /// The certificates of a verified connection. Certificates also turn the verification on for
    /// `mysql://`. Default: the platform's roots, and no client certificate. The driver always
    /// trusts Mozilla's roots; `ca` adds to them.
    pub tls: Tls,
}

impl MySqlConfig {
    /// Creates a configuration for the server at `url`, with the default of every other setting.
    pub fn new(url: impl Into<String>) -> Self {
        Self {
            url: url.into(),
            namespace: Namespace::none(),
            hold: MySqlHold::default(),
            table: "locks".to_owned(),
            create_table: true,
            purge_after: Some(Duration::from_secs(24 * 60 * 60)),
            connections: None,
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

    /// Sets the kind of holds.
    #[must_use]
    pub fn with_hold(mut self, hold: MySqlHold) -> Self {
        self.hold = hold;
        self
    }

    /// Sets the name of the locks table.
    #[must_use]
    pub fn with_table(mut self, table: impl Into<String>) -> Self {
        self.table = table.into();
        self
    }

    /// Turns the creation of missing tables off.
    #[must_use]
    pub fn without_creating_tables(mut self) -> Self {
        self.create_table = false;
        self
    }

    /// Sets how long a key has to be unused before its row is purged; `None`: never.
    #[must_use]
    pub fn with_purge_after(mut self, unused: Option<Duration>) -> Self {
        self.purge_after = unused;
        self
    }

    /// Sets the maximum number of connections for takes and holds.
    #[must_use]
    pub fn with_connections(mut self, limit: u32) -> Self {
        self.connections = Some(limit);
        self
    }

    /// Sets where holds are renewed.
    #[must_use]
    pub fn with_keeper(mut self, keeper: KeeperMode) -> Self {
        self.keeper = keeper;
        self
    }

    /// Verifies the server with these certificates.
    #[must_use]
    pub fn with_tls(mut self, tls: Tls) -> Self {
        self.tls = tls;
        self
    }

    /// Returns the maximum number of connections for takes and holds.
    pub(crate) fn connections_max(&self) -> Result<u32> {
        match (self.connections, self.hold) {
            (Some(0), _) => Err(config_error(
                "connections 0 is out of range: allow at least 1",
            )),
            (Some(limit), _) => Ok(limit),
            (None, MySqlHold::Lease) => Ok(CONNECTIONS_OF_LEASES),
            (None, MySqlHold::Row) => Ok(CONNECTIONS_OF_ROWS),
        }
    }

    /// Returns `purge_after`, unless it is too short.
    pub(crate) fn checked_purge_after(&self) -> Result<Option<Duration>> {
        match self.purge_after {
            Some(after) if after < PURGE_AFTER_MIN => Err(config_error(format!(
                "purge_after {} is too short: keep unused keys for at least 1 s, or for ever",
                HumanDuration(after)
            ))),
            after => Ok(after),
        }
    }
}

/// Creates a configuration without a URL, for `MySqlLock::from_pool`.
impl Default for MySqlConfig {
    fn default() -> Self {
        Self::new("")
    }
}

impl fmt::Debug for MySqlConfig {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("MySqlConfig")
            .field("url", &RedactedUrl(&self.url))
            .field("namespace", &self.namespace)
            .field("hold", &self.hold)
            .field("table", &self.table)
            .field("create_table", &self.create_table)
            .field("purge_after", &self.purge_after)
            .field("connections", &self.connections)
            .field("keeper", &self.keeper)
            .field("tls", &self.tls)
            .finish_non_exhaustive()
    }
}
