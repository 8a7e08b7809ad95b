//! Behavior specific to Redis, on real servers.

mod access;
mod batch_script;
mod batches;
mod cancellation;
mod deadlines;
mod driver;
mod interoperability;
mod kinds;
mod minimum;
mod outages;
mod owners;
#[path = "../conformance/permissions.rs"]
mod permissions;
#[cfg(feature = "tls")]
mod providers;
mod removals;
mod resends;
mod revoked;
mod runtimes;
#[cfg(feature = "tls")]
mod tls;
mod tokens;
mod turns;
mod wake_ups;

use std::time::Duration;

use lock_core::{DistributedLock, LockGuard, LockRequest};
use lock_redis::{RedisConfig, RedisLock};
use lock_testkit::servers::RedisServer;
use lock_testkit::{answered, eventually};

async fn connect(url: impl Into<String>) -> RedisLock {
    let config = RedisConfig::new(url);
    answered(|| RedisLock::connect(config.clone())).await
}

async fn lock_for(locks: &RedisLock, key: &str, ttl: Duration) -> LockGuard {
    let request = LockRequest::exclusive(key)
        .expect("a key")
        .with_ttl(ttl)
        .without_waiting();
    let taken = locks.acquire(request).await;
    taken.expect("the server runs").expect("free")
}

/// Waits until a client has read a key on a connection that receives pushes.
async fn tracks_a_key(server: &RedisServer) {
    let is_tracked = || async {
        let info = server.client().command(&["INFO", "stats"]);
        let info = info.expect("the server runs").text();
        info.is_some_and(|info| !info.contains("tracking_total_keys:0"))
    };
    eventually(
        Duration::from_secs(5),
        "the server tracks a key",
        is_tracked,
    )
    .await;
}
