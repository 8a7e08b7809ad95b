//! What clients tell of their stores and of themselves, on real servers.

use std::sync::Arc;
use std::time::Duration;

use lock_testkit::{eventually, steady};
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

/// Asks a store that stands still and then is gone.
async fn tells_an_outage(
    locks: &Arc<dyn DistributedLock>,
    address: &str,
    [freeze, thaw, kill]: [&dyn Fn(); 3],
) {
    let request = LockRequest::exclusive("held").expect("a key");
    let request = request.with_ttl(Duration::from_secs(60));
    let guard = locks.acquire(request.clone()).await;
    let guard = guard.or_else(|error| match error.kind() {
        ErrorKind::Unsupported => Ok(None),
        _ => Err(error),
    });
    let _guard = guard.expect("the store runs");
    (freeze)();
    for _ in 0..2 {
        let begun = Instant::now();
        let health = locks.health().await;
        assert!(
            begun.elapsed() < Duration::from_secs(4),
            "{:?}",
            begun.elapsed()
        );
        let error = health.latency.expect_err("frozen");
        assert_eq!(error.kind(), ErrorKind::Unavailable, "{error}");
        assert!(error.to_string().contains(address), "{error}");
        assert!(health.holds.is_some() && health.waiters == Some(0));
    }
    (thaw)();
    let answers = || async { locks.ping().await.is_ok() };
    eventually(Duration::from_secs(30), "an answer", answers).await;
    (kill)();
    let error = locks.ping().await.expect_err("killed");
    assert_eq!(error.kind(), ErrorKind::Unavailable, "{error}");
    assert!(error.to_string().contains(address), "{error}");
}

#[tokio::test]
async fn memory() {
    for hand_off in ["0s", "10ms"] {
        let url = format!("memory://?namespace=health-{hand_off}&hand_off={hand_off}");
        counts_holds_and_waiters(&connect(url).await.unwrap()).await;
    }
}

#[cfg(feature = "redis")]
#[test]
fn redis() {
    use lock_testkit::servers::RedisServer;

    steady(async || {
        let server = RedisServer::start();
        for hand_off in ["0s", "10ms"] {
            let url = format!("{}?hand_off={hand_off}", server.url());
            counts_holds_and_waiters(&connect(url).await.unwrap()).await;
        }
        let locks = connect(server.url()).await.unwrap();
        let acts: [&dyn Fn(); 3] = [&|| server.freeze(), &|| server.thaw(), &|| server.kill()];
        tells_an_outage(&locks, &format!("127.0.0.1:{}", server.port()), acts).await;
    });
}

#[cfg(feature = "mysql")]
#[test]
fn mysql() {
    use lock_testkit::servers::{SqlServer, SqlVendor};

    steady(async || {
        let server = SqlServer::start(SqlVendor::MariaDb);
        for hold in ["lease", "row"] {
            let url = format!("{}?hold={hold}", server.url());
            counts_holds_and_waiters(&connect(url).await.unwrap()).await;
        }
        let locks = connect(server.url()).await.unwrap();
        server.execute("SET GLOBAL read_only = 1");
        let error = locks.ping().await.expect_err("read-only");
        assert_eq!(error.kind(), ErrorKind::Unavailable, "{error}");
        server.execute("SET GLOBAL read_only = 0");
        let acts: [&dyn Fn(); 3] = [&|| server.freeze(), &|| server.thaw(), &|| server.kill()];
        tells_an_outage(&locks, &format!("127.0.0.1:{}", server.port()), acts).await;
    });
}

#[cfg(feature = "etcd")]
#[test]
fn etcd() {
    use lock_testkit::servers::EtcdCluster;

    steady(async || {
        let cluster = EtcdCluster::start(1);
        let locks = connect(cluster.url()).await.unwrap();
        counts_holds_and_waiters(&locks).await;
        let member = cluster.first();
        let acts: [&dyn Fn(); 3] = [&|| member.freeze(), &|| member.thaw(), &|| member.kill()];
        tells_an_outage(&locks, &cluster.endpoints(), acts).await;
    });
}

/// A member that is cut off from the others answers plain reads, and can grant no lock.
#[cfg(feature = "etcd")]
#[test]
fn a_member_without_a_majority_is_no_answer() {
    use lock_testkit::servers::EtcdCluster;

    steady(async || {
        let cluster = EtcdCluster::start(3);
        let locks = connect(cluster.url()).await.unwrap();
        locks.ping().await.unwrap();
        for member in &cluster.members()[1..] {
            member.freeze();
        }
        let is_noticed = || async { locks.ping().await.is_err() };
        eventually(Duration::from_secs(20), "no majority", is_noticed).await;
        for _ in 0..3 {
            let error = locks.ping().await.expect_err("no majority");
            assert_eq!(error.kind(), ErrorKind::Unavailable, "{error}");
        }
    });
}

#[cfg(feature = "zookeeper")]
#[test]
fn zookeeper() {
    use lock_testkit::servers::ZooKeeperServer;

    steady(async || {
        let ensemble = ZooKeeperServer::start();
        let locks = connect(format!("zookeeper://{}", ensemble.address())).await;
        let locks = locks.unwrap();
        counts_holds_and_waiters(&locks).await;
        let member = ensemble.member(0);
        let acts: [&dyn Fn(); 3] = [&|| member.freeze(), &|| member.thaw(), &|| member.kill()];
        tells_an_outage(&locks, &ensemble.address(), acts).await;
    });
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
