//! What it takes other processes to show: holders that are killed or stand still, and applications
//! that block or drop their runtimes.

mod blocked;
mod child;
mod frozen;
mod killed;
mod roles;

use std::time::Duration;

use lock_core::{DistributedLock, LockGuard, LockRequest, Mode};
use lock_mysql::{MySqlConfig, MySqlHold, MySqlLock};

const BOTH: [MySqlHold; 2] = [MySqlHold::Lease, MySqlHold::Row];

async fn connect(url: impl Into<String>, hold: MySqlHold) -> MySqlLock {
    let config = MySqlConfig::new(url).with_hold(hold);
    MySqlLock::connect(config).await.expect("the server runs")
}

/// Takes a lock that is free.
async fn take(locks: &MySqlLock, key: &str, mode: Mode, ttl: Duration) -> LockGuard {
    let key = key.try_into().expect("a key");
    let request = LockRequest::new(key, mode).with_ttl(ttl).without_waiting();
    let guard = locks.acquire(request).await.expect("the server runs");
    guard.expect("free")
}
