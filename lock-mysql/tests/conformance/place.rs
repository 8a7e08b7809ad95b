//! Servers of the conformance cases, and ways to connect.

use std::collections::HashMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use lock_core::{KeeperMode, LockKey, Tls};
use lock_mysql::MySqlConfig;
use lock_testkit::Case;
use lock_testkit::servers::{Spare, Spares, SqlServer, SqlSession, SqlVendor};

use crate::REACHED_BY_OTHERS;
use crate::access::{authority, create_locker};

/// Time limit of a few round trips on a busy server.
pub(crate) const PATIENCE: Duration = Duration::from_secs(15);

/// A way to use a store.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Way {
    Plain,
    /// With holds that are renewed on the caller's runtime.
    KeptByTheCaller,
    /// As a user with the documented rights only, on the documented tables.
    Limited,
    OverTls,
}

/// A server, and a way to use it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Place {
    pub(crate) vendor: SqlVendor,
    pub(crate) way: Way,
}

impl Place {
    /// Starts a server with room for a thousand row locks, each on a connection of its own.
    ///
    /// Commits do not wait for the disk, which other processes may be using. No case is about power
    /// failures.
    fn start(self) -> SqlServer {
        let usual = [
            "--max-connections=3000",
            "--innodb-flush-log-at-trx-commit=2",
        ];
        // Without TLS: its handshakes would be most of the work for a thousand connections.
        let bare = [usual[0], usual[1], "--tls-version="];
        let server = match (self.way, self.vendor) {
            (Way::OverTls, vendor) => SqlServer::start_with_tls(vendor, authority(), &usual),
            (Way::Plain | Way::KeptByTheCaller, SqlVendor::MySql) => {
                SqlServer::start_with(self.vendor, &bare)
            }
            (_, vendor) => SqlServer::start_with(vendor, &usual),
        };
        if self.way == Way::Limited {
            create_locker(&server);
        }
        server
    }

    /// Lends a server to a case that freezes or restarts it.
    pub(crate) fn lend(self) -> Spare<SqlServer> {
        static SPARES: PerPlace<Spares<SqlServer>> = PerPlace::new();

        let thaw = |server: &SqlServer| server.thaw();
        let spares = SPARES.at(self, || Spares::new(thaw));
        spares.lend(|| self.start())
    }

    /// Returns the server that all harmless cases of this process share.
    pub(crate) fn shared(self) -> &'static SqlServer {
        static SHARED: PerPlace<SqlServer> = PerPlace::new();

        SHARED.at(self, || self.start())
    }

    /// Returns the rows of `sql` on a case's own server, else on the shared server. Sessions of the
    /// shared server are reused, since a case may ask a hundred times.
    pub(crate) fn look(self, own: Option<&SqlServer>, sql: &str) -> Vec<String> {
        static IDLE: PerPlace<Mutex<Vec<SqlSession>>> = PerPlace::new();

        // A case may end the sessions of its own server.
        if let Some(own) = own {
            return own.execute(sql).lines().map(str::to_owned).collect();
        }
        let idle = IDLE.at(self, Mutex::default);
        let left = idle.lock().unwrap_or_else(PoisonError::into_inner).pop();
        let mut session = left.unwrap_or_else(|| self.shared().session());
        let rows = session.run(sql);
        idle.lock()
            .unwrap_or_else(PoisonError::into_inner)
            .push(session);
        rows
    }

    /// Returns the configuration of a client of `server`.
    pub(crate) fn config(self, server: &SqlServer) -> MySqlConfig {
        let config = MySqlConfig::new(server.url());
        match self.way {
            Way::Plain => config,
            Way::KeptByTheCaller => config.with_keeper(KeeperMode::Caller),
            Way::Limited => {
                let url = format!("mysql://locker:password@127.0.0.1:{}/app", server.port());
                MySqlConfig::new(url).without_creating_tables()
            }
            Way::OverTls => {
                let url = server.url().replacen("mysql://", "mysqls://", 1);
                MySqlConfig::new(url).with_tls(Tls::new().with_ca(authority().ca()))
            }
        }
    }

    /// Returns the address by which another process connects to `server`, if it can.
    pub(crate) fn address(self, server: &SqlServer, namespace: &str, hold: &str) -> Option<String> {
        let is_reached = REACHED_BY_OTHERS && self.way == Way::Plain;
        is_reached.then(|| format!("{hold} {namespace} {}", server.url()))
    }

    /// Returns the name of the locks table for an operator's statements.
    pub(crate) fn locks(self) -> &'static str {
        if self.way == Way::Limited {
            "app.locks"
        } else {
            "locks"
        }
    }
}

/// A value per place that lives until the process ends.
struct PerPlace<T: 'static>(Mutex<Option<HashMap<Place, &'static T>>>);

impl<T> PerPlace<T> {
    const fn new() -> Self {
        Self(Mutex::new(None))
    }

    fn at(&self, place: Place, make: impl FnOnce() -> T) -> &'static T {
        let mut all = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        all.get_or_insert_default()
            .entry(place)
            .or_insert_with(|| Box::leak(Box::new(make())))
    }
}

/// Returns a plain name, since colons are escaped on the server. A number follows, since a case may
/// run in several ways at once.
pub(crate) fn namespace(case: Case) -> String {
    static STORES: AtomicU64 = AtomicU64::new(0);

    let name = case.to_string().replace("::", ".");
    format!("{name}.{}", STORES.fetch_add(1, Ordering::Relaxed))
}

pub(crate) fn literal(namespace: &str, key: &LockKey) -> String {
    let bytes = format!("{namespace}:{key}").into_bytes();
    let digits: String = bytes.iter().map(|byte| format!("{byte:02x}")).collect();
    format!("x'{digits}'")
}
