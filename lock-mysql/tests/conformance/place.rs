//! Where the cases run, and how they connect.

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

/// How long a few round trips may take on a server that does all of a case's work on a busy
/// machine.
pub(crate) const PATIENCE: Duration = Duration::from_secs(15);

/// In which way a store is used.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Way {
    Plain,
    /// With holds that are renewed on the runtime of whoever acquired them.
    KeptByTheCaller,
    /// As a user who may do no more than what is documented, on tables that are documented.
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
    /// A server with room for a case that holds a thousand row locks, each on a connection of its
    /// own. Its commits go to the operating system and not to the disk, which may be anybody's:
    /// what a commit is worth after a power failure is not what the cases are about.
    fn start(self) -> SqlServer {
        let usual = [
            "--max-connections=3000",
            "--innodb-flush-log-at-trx-commit=2",
        ];
        // Without TLS, where that is not asked for: it would be most of the work of opening a
        // thousand connections.
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

    /// One for a case that does it some harm.
    pub(crate) fn lend(self) -> Spare<SqlServer> {
        static SPARES: PerPlace<Spares<SqlServer>> = PerPlace::new();

        let thaw = |server: &SqlServer| server.thaw();
        let spares = SPARES.at(self, || Spares::new(thaw));
        spares.lend(|| self.start())
    }

    /// The one that all cases of this process share who do it no harm.
    pub(crate) fn shared(self) -> &'static SqlServer {
        static SHARED: PerPlace<SqlServer> = PerPlace::new();

        SHARED.at(self, || self.start())
    }

    /// The rows of `sql` on a case's own server, or on the shared one: there in a session that
    /// stays for the next look, since a case may look a hundred times.
    pub(crate) fn look(self, own: Option<&SqlServer>, sql: &str) -> Vec<String> {
        static IDLE: PerPlace<Mutex<Vec<SqlSession>>> = PerPlace::new();

        // What a case does to its own server may end sessions.
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

    /// How a client of `server` is configured.
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

    /// Returns the address by which another process connects to `server` as a client here does.
    pub(crate) fn address(self, server: &SqlServer, namespace: &str, hold: &str) -> Option<String> {
        let is_reached = REACHED_BY_OTHERS && self.way == Way::Plain;
        is_reached.then(|| format!("{hold} {namespace} {}", server.url()))
    }

    /// The locks table as it stands in statements of an operator.
    pub(crate) fn locks(self) -> &'static str {
        if self.way == Way::Limited {
            "app.locks"
        } else {
            "locks"
        }
    }
}

/// What there is once at each place, until the process ends.
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

/// A plain name, since colons are escaped on the server, and a number, since a case may be run in
/// several ways at once.
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
