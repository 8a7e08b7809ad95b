//! What it takes other processes to show: holders that are killed or stand still, and applications
//! that block or drop their runtimes.

mod blocked;
mod frozen;
mod killed;

use std::time::Duration;

use lock_core::{DistributedLock, LockGuard, LockRequest, Mode};
use lock_mysql::{MySqlConfig, MySqlHold, MySqlLock};
use lock_testkit::servers::SqlServer;

const BOTH: [MySqlHold; 2] = [MySqlHold::Lease, MySqlHold::Row];

async fn connect(url: impl Into<String>, hold: MySqlHold) -> MySqlLock {
    let config = MySqlConfig::new(url).with_hold(hold);
    MySqlLock::connect(config).await.expect("the server runs")
}

/// How a child is told to hold, and where.
fn store(server: &SqlServer, hold: MySqlHold) -> String {
    format!("{hold:?} {}", server.url())
}

async fn connect_as_told(store: String) -> MySqlLock {
    let (told, url) = store.split_once(' ').expect("two words");
    let hold = BOTH.into_iter().find(|hold| format!("{hold:?}") == told);
    connect(url, hold.expect("one of both")).await
}

lock_testkit::roles!(connect_as_told);

fn request(key: &str, mode: Mode, ttl: Duration) -> LockRequest {
    let key = key.try_into().expect("a key");
    LockRequest::new(key, mode).with_ttl(ttl)
}

/// Takes a lock that is free.
async fn take(locks: &MySqlLock, key: &str, mode: Mode, ttl: Duration) -> LockGuard {
    let request = request(key, mode, ttl).without_waiting();
    let guard = locks.acquire(request).await.expect("the server runs");
    guard.expect("free")
}
