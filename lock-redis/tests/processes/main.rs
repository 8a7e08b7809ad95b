//! Tests with other clocks, and with applications that block or abort tasks. The conformance cases
//! have the tests with other processes.

mod aborted;
mod blocked;
mod clocks;

use std::time::Duration;

use lock_core::{DistributedLock, LockGuard, LockRequest, Mode};
use lock_redis::{RedisConfig, RedisLock};
use lock_testkit::answered;
use lock_testkit::servers::RedisServer;

async fn connect(url: impl Into<String>) -> RedisLock {
    let config = RedisConfig::new(url);
    answered(|| RedisLock::connect(config.clone())).await
}

lock_testkit::roles!(connect);

fn request(key: &str, mode: Mode, ttl: Duration) -> LockRequest {
    let key = key.try_into().expect("a key");
    LockRequest::new(key, mode).with_ttl(ttl)
}

/// Takes a lock that is free.
async fn take(locks: &RedisLock, key: &str, mode: Mode, ttl: Duration) -> LockGuard {
    let request = request(key, mode, ttl).without_waiting();
    let guard = locks.acquire(request).await.expect("the server runs");
    guard.expect("free")
}

/// Returns true if the server has no key but the counter of grants.
fn is_empty(server: &RedisServer) -> bool {
    let size = server.client().command(&["DBSIZE"]);
    size.expect("the server runs").integer() <= Some(1)
}
