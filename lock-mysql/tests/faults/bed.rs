//! A server with a proxy in front of it.

use std::time::Duration;

use lock_core::{DistributedLock, LockGuard, LockRequest, Mode, Wait};
use lock_mysql::{MySqlConfig, MySqlHold, MySqlLock};
use lock_testkit::faults::Proxy;
use lock_testkit::servers::{SqlServer, SqlVendor};
use lock_testkit::{answered, eventually};

use crate::PROMPT;

pub(crate) const BOTH: [MySqlHold; 2] = [MySqlHold::Lease, MySqlHold::Row];

pub(crate) struct Bed {
    pub(crate) server: SqlServer,
    pub(crate) proxy: Proxy,
}

impl Bed {
    /// Starts a server without TLS, so that the proxy sees single packets.
    pub(crate) fn new(vendor: SqlVendor) -> Self {
        let plain = match vendor {
            SqlVendor::MariaDb => "--skip-ssl",
            SqlVendor::MySql => "--tls-version=",
        };
        let server = SqlServer::start_with(vendor, &[plain]);
        let proxy = Proxy::before(server.port());
        Self { server, proxy }
    }

    /// Connects a client through the proxy.
    pub(crate) async fn client(&self, hold: MySqlHold) -> MySqlLock {
        let url = format!("mysql://root@127.0.0.1:{}/locks", self.proxy.port());
        connect(url, hold).await
    }

    /// Connects a client that no fault reaches.
    pub(crate) async fn direct(&self, hold: MySqlHold) -> MySqlLock {
        connect(self.server.url(), hold).await
    }

    /// Returns the number of bytes sent to the server on each connection.
    pub(crate) fn sent(&self) -> Vec<usize> {
        (0..self.proxy.all().count())
            .map(|number| self.proxy.nth(number).to_server().bytes())
            .collect()
    }

    /// Returns the remaining time of the lease on `key`, by the server's clock.
    pub(crate) fn expires_in(&self, key: &str) -> Duration {
        let left = self.server.execute(&format!(
            "SELECT TIMESTAMPDIFF(MICROSECOND, UTC_TIMESTAMP(6), expires) FROM locks WHERE k = {}",
            row(key)
        ));
        let left: i64 = left.parse().unwrap_or_default();
        Duration::from_micros(u64::try_from(left).unwrap_or_default())
    }

    /// Returns the number of rows that are locked or leased.
    pub(crate) fn held(&self) -> usize {
        let free = "SET SESSION TRANSACTION ISOLATION LEVEL READ COMMITTED; SELECT COUNT(*) FROM (SELECT k FROM locks WHERE expires <= UTC_TIMESTAMP(6) FOR UPDATE SKIP LOCKED) AS free";
        // Only MySQL locks rows in a derived table.
        let free = match self.server.vendor() {
            SqlVendor::MySql => self.server.execute(free).parse().expect("a number"),
            SqlVendor::MariaDb => self
                .server
                .execute("SET SESSION TRANSACTION ISOLATION LEVEL READ COMMITTED; SELECT 'free' FROM locks WHERE expires <= UTC_TIMESTAMP(6) FOR UPDATE SKIP LOCKED")
                .lines()
                .count(),
        };
        let all: usize = self
            .server
            .execute("SELECT COUNT(*) FROM locks WHERE k <> ''")
            .parse()
            .expect("a number");
        all - free
    }

    /// Waits until no row is locked or leased.
    pub(crate) async fn empties(&self) {
        eventually(PROMPT, "nothing is held", || async { self.held() == 0 }).await;
    }
}

pub(crate) async fn connect(url: String, hold: MySqlHold) -> MySqlLock {
    let config = MySqlConfig::new(url).with_hold(hold);
    answered(|| MySqlLock::connect(config.clone())).await
}

/// Returns a key without a namespace as an SQL literal.
pub(crate) fn row(key: &str) -> String {
    let digits: String = key.bytes().map(|byte| format!("{byte:02x}")).collect();
    format!("x'{digits}'")
}

/// Returns the modes that `hold` supports.
pub(crate) fn modes(hold: MySqlHold) -> Vec<Mode> {
    let one = Mode::permit(1).expect("a permit");
    match hold {
        MySqlHold::Row => vec![Mode::Exclusive, Mode::Shared],
        _ => vec![Mode::Exclusive, Mode::Shared, one],
    }
}

pub(crate) fn request(key: &str, mode: Mode, ttl: Duration) -> LockRequest {
    let key = key.try_into().expect("a key");
    LockRequest::new(key, mode).with_ttl(ttl).without_waiting()
}

/// Takes a lock that is free or soon will be.
pub(crate) async fn take(locks: &MySqlLock, request: &LockRequest) -> LockGuard {
    let request = request.clone().with_wait(Wait::within(PROMPT));
    let answer = locks.acquire(request).await;
    answer.expect("the server runs").expect("free in time")
}

/// Takes and releases a lock, so that the connections for takes and releases are open.
pub(crate) async fn take_and_release(locks: &MySqlLock, request: &LockRequest) {
    let guard = take(locks, request).await;
    guard.release().await.expect("the server runs");
}
