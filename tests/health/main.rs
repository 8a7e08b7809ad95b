//! The health of clients: their stores, holds, waiters and renewals.

#[cfg(any(
    feature = "etcd",
    feature = "mysql",
    feature = "redis",
    feature = "zookeeper"
))]
mod servers;

use std::sync::Arc;
use std::time::Duration;

use lock_testkit::eventually;
use polylock::backend::Backend;
use polylock::{
    Capabilities, Config, DistributedLock, DistributedLockExt, ErrorKind, LockGuard, LockRequest,
    MemoryLock, Registry, Result, connect,
};
use tokio::task::JoinSet;
use tokio::time::Instant;

/// Waits until the client counts `holds` and `waiters`.
async fn counts(locks: &dyn DistributedLock, holds: usize, waiters: usize) {
    let expected = (Some(holds), Some(waiters));
    let is_counted = || async {
        let health = locks.health().await;
        (health.holds, health.waiters) == expected
    };
    let what = format!("{holds} holds and {waiters} waiters");
    eventually(Duration::from_secs(20), &what, is_counted).await;
}

/// Holds, waits and renews on a running store.
async fn counts_holds_and_waiters(locks: &Arc<dyn DistributedLock>) {
    let idle = locks.health().await;
    assert!(idle.latency.expect("the store runs") < Duration::from_secs(2));
    assert_eq!((idle.holds, idle.waiters), (Some(0), Some(0)));
    assert_eq!(idle.oldest_renewal, None);
    assert!(idle.stores.is_empty());

    let request = LockRequest::exclusive("held").expect("a key");
    let guard = locks
        .acquire(request.with_ttl(Duration::from_secs(6)))
        .await;
    let guard = guard.expect("the store runs").expect("free");
    let other = locks.lock("other").await.expect("the store runs");
    let mut waiting: JoinSet<Result<LockGuard>> = JoinSet::new();
    for _ in 0..3 {
        let locks = Arc::clone(locks);
        waiting.spawn(async move { locks.lock("held").await });
    }
    counts(&**locks, 2, 3).await;
    other.release().await.expect("the store runs");
    counts(&**locks, 1, 3).await;

    // The hold is renewed every two seconds.
    let begun = Instant::now();
    let was_renewed = || async {
        let oldest = locks.health().await.oldest_renewal;
        oldest.expect("there is a hold") < begun.elapsed()
    };
    eventually(Duration::from_secs(20), "a renewal", was_renewed).await;
    let oldest = locks.health().await.oldest_renewal;
    assert!(oldest.expect("there is a hold") < Duration::from_secs(6));

    waiting.abort_all();
    while waiting.join_next().await.is_some() {}
    counts(&**locks, 1, 0).await;
    guard.release().await.expect("the store runs");
    counts(&**locks, 0, 0).await;
}

#[tokio::test]
async fn memory() {
    for hand_off in ["0s", "10ms"] {
        let url = format!("memory://?namespace=health-{hand_off}&hand_off={hand_off}");
        counts_holds_and_waiters(&connect(url).await.unwrap()).await;
    }
}

#[tokio::test]
async fn several_stores_are_told_one_by_one_and_together() {
    let mut registry = Registry::new();
    let silent = Backend::new("silent", async |_options| {
        Ok(Arc::new(Silent) as Arc<dyn DistributedLock>)
    });
    registry.register(silent).unwrap();
    let store = |name: &str| Config::new(format!("memory://?namespace=health-{name}"));
    let config = Config::default()
        .with_store("one", store("one"))
        .with_store("two", store("two"))
        .with_route("one/*", "one")
        .with_route("*", "two");
    let locks = registry.connect(config.clone()).await.unwrap();
    let _guards = (locks.lock("one/k").await, locks.lock("k").await);
    let health = locks.health().await;
    assert!(health.is_reachable());
    assert_eq!(health.holds, Some(2));
    assert_eq!(health.stores["one"].holds, Some(1));
    assert_eq!(health.stores.len(), 2);
    locks.ping().await.unwrap();

    let config = config
        .with_store("three", Config::new("silent://"))
        .with_route("three/*", "three");
    let locks = registry.connect(config).await.unwrap();
    let error = locks.ping().await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Unsupported, "{error}");
    assert!(error.to_string().contains("locks.three: "), "{error}");
    let health = locks.health().await;
    assert_eq!((health.holds, health.waiters), (None, None));
    assert!(health.stores["one"].is_reachable());
}

/// A backend that knows nothing of health.
#[derive(Debug)]
struct Silent;

#[polylock::backend::async_trait]
impl DistributedLock for Silent {
    fn capabilities(&self) -> Capabilities {
        Capabilities::new("silent")
    }

    async fn acquire(&self, _request: LockRequest) -> Result<Option<LockGuard>> {
        Ok(None)
    }
}

#[tokio::test]
async fn a_client_that_was_shut_down_says_so() {
    let locks = MemoryLock::new();
    locks.shutdown(Duration::ZERO).await.unwrap();
    let error = locks.ping().await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Closed, "{error}");
}
