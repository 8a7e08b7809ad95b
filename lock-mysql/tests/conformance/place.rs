//! Where the cases run: servers, and a namespace for each.

use std::sync::OnceLock;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use lock_core::LockKey;
use lock_testkit::Case;
use lock_testkit::servers::{SqlServer, SqlVendor};

/// A server with room for a case that holds a thousand row locks, each on a connection of its own, and
/// without TLS, which would be most of the work of opening them. Its commits go to the operating system
/// and not to the disk, which may be anybody's: what a commit is worth after a power failure is not
/// what the cases are about.
pub(crate) fn start(vendor: SqlVendor) -> SqlServer {
    let usual = [
        "--max-connections=3000",
        "--innodb-flush-log-at-trx-commit=2",
    ];
    match vendor {
        SqlVendor::MariaDb => SqlServer::start_with(vendor, &usual),
        SqlVendor::MySql => SqlServer::start_with(vendor, &[usual[0], usual[1], "--tls-version="]),
    }
}

/// How long a few round trips may take on a server that does all of a case's work on a busy machine.
pub(crate) const PATIENCE: Duration = Duration::from_secs(15);

/// The one that all cases of this process share who do it no harm.
pub(crate) fn shared(vendor: SqlVendor) -> &'static SqlServer {
    static MARIADB: OnceLock<SqlServer> = OnceLock::new();
    static MYSQL: OnceLock<SqlServer> = OnceLock::new();

    let shared = match vendor {
        SqlVendor::MariaDb => &MARIADB,
        SqlVendor::MySql => &MYSQL,
    };
    shared.get_or_init(|| start(vendor))
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
