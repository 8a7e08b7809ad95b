//! Applications that block or drop their runtimes. The conformance cases cover the faults of other
//! processes.

mod blocked;

use std::time::Duration;

use lock_core::{DistributedLock, LockGuard, LockRequest, Mode};
use lock_mysql::{MySqlConfig, MySqlHold, MySqlLock};
use lock_testkit::answered;

const BOTH: [MySqlHold; 2] = [MySqlHold::Lease, MySqlHold::Row];

async fn connect(url: impl Into<String>, hold: MySqlHold) -> MySqlLock {
    let config = MySqlConfig::new(url).with_hold(hold);
    answered(|| MySqlLock::connect(config.clone())).await
}

fn request(key: &str, mode: Mode, ttl: Duration) -> LockRequest {
    let key = key.try_into().expect("a key");
    LockRequest::new(key, mode).with_ttl(ttl)
}

/// Takes a free lock.
async fn take(locks: &MySqlLock, key: &str, mode: Mode, ttl: Duration) -> LockGuard {
    let request = request(key, mode, ttl).without_waiting();
    let guard = locks.acquire(request).await.expect("the server runs");
    guard.expect("free")
}
