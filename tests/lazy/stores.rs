//! Real servers that start after their clients, stop or stand still.

use std::sync::Arc;
use std::time::Duration;

use lock_testkit::steady;
use polylock::{
    Config, DistributedLock, DistributedLockExt, ErrorKind, connect_lazy, connect_within,
};
use tokio::time::{Instant, timeout};

/// A server with a ttl that all of its kind have.
struct Server<'a> {
    url: String,
    address: String,
    kill: &'a dyn Fn(),
    restart: &'a dyn Fn(),
    freeze: &'a dyn Fn(),
    thaw: &'a dyn Fn(),
}

impl Server<'_> {
    fn config(&self) -> Config {
        Config::new(&self.url).with_ttl(Duration::from_secs(10))
    }

    fn lazy(&self) -> Arc<dyn DistributedLock> {
        connect_lazy(self.config()).expect("nothing is wrong")
    }
}

/// Waits until a lock is taken. A server that has just started may still refuse.
async fn takes_a_lock(locks: &dyn DistributedLock, key: &str) {
    let guard = locks.lock_within(key, Duration::from_secs(60)).await;
    let guard = guard.expect("the server runs").expect("free");
    guard.release().await.expect("the server runs");
}

async fn starts_and_stops_as_it_likes(server: &Server<'_>) {
    later_than_its_client(server).await;
    within_a_limit(server).await;
    stands_still(server).await;
}

async fn later_than_its_client(server: &Server<'_>) {
    (server.kill)();
    let locks = server.lazy();
    let declared = locks.capabilities();
    assert!(declared.shared);
    let error = locks.try_lock("k").await.expect_err("refused");
    assert_eq!(error.kind(), ErrorKind::Unavailable, "{error}");
    assert!(error.to_string().contains(&server.address), "{error}");
    assert_eq!(error.backend(), Some(declared.backend), "{error}");
    assert!(!locks.health().await.is_reachable());

    let mut waiting = Box::pin(locks.lock_within("k", Duration::from_secs(60)));
    let early = timeout(Duration::from_millis(300), waiting.as_mut()).await;
    assert!(early.is_err(), "{early:?}");
    (server.restart)();
    let guard = waiting.await.expect("the server runs").expect("free");
    assert!(guard.is_held());
    guard.release().await.expect("the server runs");

    let found = locks.capabilities();
    assert_eq!(found.backend, declared.backend);
    assert!(declared.ttl.start() <= found.ttl.start());
    assert!(declared.ttl.end() >= found.ttl.end());
    assert!(declared.longest_with_delay >= found.longest_with_delay);
    assert!(declared.longest_min_hold >= found.longest_min_hold);
    assert!(found.push || !declared.push, "promised and not kept");
    assert!(found.permits || !declared.permits, "promised and not kept");
    assert_eq!(declared.tokens, found.tokens);
    assert!(locks.health().await.is_reachable());
    locks
        .shutdown(Duration::from_secs(10))
        .await
        .expect("nothing is held");
    let error = locks.try_lock("k").await.expect_err("refused");
    assert_eq!(error.kind(), ErrorKind::Closed, "{error}");
}

async fn within_a_limit(server: &Server<'_>) {
    (server.kill)();
    let (begun, limit) = (Instant::now(), Duration::from_millis(700));
    let error = connect_within(server.config(), limit).await.map(drop);
    let error = error.expect_err("no answer");
    assert_eq!(error.kind(), ErrorKind::Unavailable, "{error}");
    assert!(error.to_string().contains(&server.address), "{error}");
    assert!(begun.elapsed() < limit * 2, "{:?}", begun.elapsed());

    let mut connecting = Box::pin(connect_within(server.config(), Duration::from_secs(60)));
    let early = timeout(Duration::from_millis(300), connecting.as_mut()).await;
    assert!(early.is_err(), "{early:?}");
    (server.restart)();
    takes_a_lock(&*connecting.await.expect("the server runs"), "k").await;
}

async fn stands_still(server: &Server<'_>) {
    let locks = server.lazy();
    (server.freeze)();
    let limit = Duration::from_millis(400);
    let error = connect_within(server.config(), limit).await.map(drop);
    let error = error.expect_err("no answer");
    assert_eq!(error.kind(), ErrorKind::Unavailable, "{error}");
    assert!(error.to_string().contains(&server.address), "{error}");

    let cancelled = timeout(Duration::from_millis(100), locks.lock("k")).await;
    assert!(cancelled.is_err(), "{cancelled:?}");
    let begun = Instant::now();
    let error = locks.try_lock("k").await.expect_err("refused");
    assert_eq!(error.kind(), ErrorKind::Unavailable, "{error}");
    assert!(begun.elapsed() < Duration::from_millis(3500));
    (server.thaw)();
    let (first, second) = tokio::join!(
        locks.lock_within("a", Duration::from_secs(60)),
        locks.lock_within("b", Duration::from_secs(60)),
    );
    for guard in [first, second] {
        let guard = guard.expect("the server runs").expect("free");
        guard.release().await.expect("the server runs");
    }
}

#[cfg(feature = "redis")]
#[test]
fn redis() {
    use lock_testkit::servers::RedisServer;

    steady(async || {
        let server = RedisServer::start();
        starts_and_stops_as_it_likes(&Server {
            url: server.url(),
            address: format!("127.0.0.1:{}", server.port()),
            kill: &|| server.kill(),
            restart: &|| server.restart(),
            freeze: &|| server.freeze(),
            thaw: &|| server.thaw(),
        })
        .await;
    });
}

#[cfg(feature = "mysql")]
#[test]
fn mysql() {
    use lock_testkit::servers::{SqlServer, SqlVendor};

    steady(async || {
        let server = SqlServer::start(SqlVendor::MariaDb);
        starts_and_stops_as_it_likes(&Server {
            url: server.url(),
            address: format!("127.0.0.1:{}", server.port()),
            kill: &|| server.kill(),
            restart: &|| server.restart(),
            freeze: &|| server.freeze(),
            thaw: &|| server.thaw(),
        })
        .await;
    });
}

#[cfg(feature = "etcd")]
#[test]
fn etcd() {
    use lock_testkit::servers::EtcdCluster;

    steady(async || {
        let cluster = EtcdCluster::start(1);
        starts_and_stops_as_it_likes(&Server {
            url: cluster.url(),
            address: cluster.endpoints(),
            kill: &|| cluster.first().kill(),
            restart: &|| cluster.first().restart(),
            freeze: &|| cluster.first().freeze(),
            thaw: &|| cluster.first().thaw(),
        })
        .await;
    });
}

#[cfg(feature = "zookeeper")]
#[test]
fn zookeeper() {
    use lock_testkit::servers::ZooKeeperServer;

    steady(async || {
        let ensemble = ZooKeeperServer::start();
        let member = ensemble.member(0);
        starts_and_stops_as_it_likes(&Server {
            url: format!("zookeeper://{}", ensemble.address()),
            address: ensemble.address(),
            kill: &|| member.kill(),
            restart: &|| member.restart(),
            freeze: &|| member.freeze(),
            thaw: &|| member.thaw(),
        })
        .await;
    });
}
