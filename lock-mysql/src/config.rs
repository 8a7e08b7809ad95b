//! The configuration: the server, and how holds are kept on it.

use std::fmt;
use std::time::Duration;

#[doc(inline)]
pub use lock_core::MySqlHold;
use lock_core::backend::RedactedUrl;
use lock_core::{KeeperMode, Namespace, Tls};

/// Where the server is, which table holds the locks, and how.
///
#[doc = include_str!("permissions.md")]
#[derive(Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct MySqlConfig {
    /// `mysql://user:password@host:3306/database`: password and port (3306) may be left out, the
    /// database has to exist. An IPv6 address stands in brackets. Nothing may follow: settings are
    /// the other fields here. The connection is encrypted if the server offers it, but no one
    /// checks whose server it is. `mysqls://` demands TLS and verifies the server.
    ///
    /// The host has to be one server, or name the one that takes writes just now: locks on two
    /// servers do not exclude each other. A Galera cluster counts as one server for
    /// [`MySqlHold::Lease`], as far as the clocks of its nodes agree: two clients on nodes whose
    /// clocks differ may hold a key together for as long as they differ, unless the [lock
    /// delay](lock_core::LockRequest::lock_delay) is longer.
    ///
    /// Other characters than letters, digits and `-._~` in user or password are written as `%`
    /// and two hexadecimal digits.
    pub url: String,
    /// The prefix of every key, joined by a colon; colons of its own are written `%3A`, and
    /// percent signs `%25`. Default: nothing.
    pub namespace: Namespace,
    /// The form of a held lock on the server. Default: [`MySqlHold::Lease`].
    pub hold: MySqlHold,
    /// The name of the locks table: letters, digits and `_`, at most 56, perhaps behind the name of
    /// another database and a dot. Default: `locks`. The holders of shared locks and permits are in
    /// a second one of the same name with `_holders` behind it.
    pub table: String,
    /// Creates tables that are missing, at connect and when they are dropped later. Default: yes.
    /// Where they are there, nothing is created, and the user needs no right to.
    pub create_table: bool,
    /// The time that a key stays in the table unused before its row is purged. Default: a day;
    /// `None`: for ever. At least 1 second. Tokens keep growing over it. A user who may not delete
    /// rows of the locks table purges nothing. Other programs that lock rows by `SELECT … FOR
    /// UPDATE` have to make the row that they lock in the same transaction.
    pub purge_after: Option<Duration>,
    /// The number of connections that the client opens at most for takes and holds. Default: 8 with
    /// [`MySqlHold::Lease`], on each runtime that takes locks, where they are only needed while a
    /// request is under way, and 64 with [`MySqlHold::Row`], where each held lock and each waited
    /// key needs one. At least 1. Up to eight more are opened to keep, release and clean up, and
    /// three for releases on each runtime.
    pub connections: Option<u32>,
    /// Where holds are renewed. Default: the keeper thread, so that an application that blocks its
    /// runtime keeps its locks.
    pub keeper: KeeperMode,
    /// The certificates of a verified connection. Giving them turns the verification on for
    /// `mysql://`, too. The driver trusts the roots that Mozilla trusts in any case: `ca` adds to
    /// them. Default: also the platform's roots, and no client certificate.
    pub tls: Tls,
}

impl MySqlConfig {
    /// The server at `url` with every default.
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

    /// Puts `namespace` before every key.
    #[must_use]
    pub fn with_namespace(mut self, namespace: Namespace) -> Self {
        self.namespace = namespace;
        self
    }

    /// Holds locks in this way.
    #[must_use]
    pub fn with_hold(mut self, hold: MySqlHold) -> Self {
        self.hold = hold;
        self
    }

    /// Uses the table of this name.
    #[must_use]
    pub fn with_table(mut self, table: impl Into<String>) -> Self {
        self.table = table.into();
        self
    }

    /// Expects the tables to be there.
    #[must_use]
    pub fn without_creating_tables(mut self) -> Self {
        self.create_table = false;
        self
    }

    /// Purges keys that were unused for so long; `None`: never.
    #[must_use]
    pub fn with_purge_after(mut self, unused: Option<Duration>) -> Self {
        self.purge_after = unused;
        self
    }

    /// Opens at most so many connections.
    #[must_use]
    pub fn with_connections(mut self, limit: u32) -> Self {
        self.connections = Some(limit);
        self
    }

    /// Renews holds at `place`.
    #[must_use]
    pub fn with_keeper(mut self, place: KeeperMode) -> Self {
        self.keeper = place;
        self
    }

    /// Verifies the server, with these certificates.
    #[must_use]
    pub fn with_tls(mut self, tls: Tls) -> Self {
        self.tls = tls;
        self
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
