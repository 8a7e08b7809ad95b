//! What is particular to Redis, on real servers.

mod access;
mod cancellation;
mod deadlines;
mod interoperability;
mod outages;
mod owners;
mod resends;
mod tokens;
mod wake_ups;

use std::time::Duration;

use lock_core::{DistributedLock, LockGuard, LockRequest};
use lock_redis::{RedisConfig, RedisLock};

async fn connect(url: impl Into<String>) -> RedisLock {
    RedisLock::connect(RedisConfig::new(url))
        .await
        .expect("the server runs")
}

async fn lock_for(locks: &RedisLock, key: &str, ttl: Duration) -> LockGuard {
    let request = LockRequest::exclusive(key)
        .expect("a key")
        .with_ttl(ttl)
        .without_waiting();
    locks
        .acquire(request)
        .await
        .expect("the server runs")
        .expect("free")
}
