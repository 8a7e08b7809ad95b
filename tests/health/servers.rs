//! The health of clients of real servers, which stand still and are gone.

use std::sync::Arc;
use std::time::Duration;

use lock_testkit::{eventually, steady};
use polylock::{DistributedLock, DistributedLockExt, ErrorKind, LockRequest, connect};
use tokio::time::Instant;

use crate::counts_holds_and_waiters;

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
