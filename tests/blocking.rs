//! Threads without async, on real stores.

use std::time::Duration;

use polylock::backend::Released;
use polylock::blocking::{Client, LockGuard, connect};
use polylock::{ErrorKind, LockRequest, Registry};
use tokio::runtime::Builder;

const TTL: Duration = Duration::from_secs(2);
const LIMIT: Duration = Duration::from_secs(20);

/// Connects and takes the lock on a worker of a runtime that is gone afterwards.
fn take_in_a_runtime(url: &str, key: &str) -> (Client, LockGuard) {
    let runtime = Builder::new_multi_thread()
        .enable_all()
        .build()
        .expect("a runtime");
    let request = LockRequest::exclusive(key).expect("a key").with_ttl(TTL);
    let url = url.to_owned();
    let taken = runtime.spawn(async move {
        let locks = connect(url).expect("the store answers");
        let guard = locks
            .acquire(request)
            .expect("the store answers")
            .expect("free");
        (locks, guard)
    });
    runtime.block_on(taken).expect("no panic")
}

/// Holds a lock longer than its runtime and its client live, and longer than its ttl.
fn outlive_runtime_and_client(url: &str) {
    let key = "blocking/outlives";
    let (locks, guard) = take_in_a_runtime(url, key);
    let other = connect(url).expect("the store answers");
    assert!(other.try_lock(key).expect("the store answers").is_none());
    assert_eq!(guard.wait_lost_within(TTL), None);
    drop(locks);
    assert_eq!(guard.wait_lost_within(TTL), None);
    assert!(guard.is_held());
    assert!(other.try_lock(key).expect("the store answers").is_none());

    assert_eq!(
        guard.release().expect("the store answers"),
        Released::Released
    );
    let next = other
        .lock_within(key, LIMIT)
        .expect("the store answers")
        .expect("released");
    drop(next);
    let last = connect(url).expect("the store answers");
    assert!(
        last.lock_within(key, LIMIT)
            .expect("the store answers")
            .is_some()
    );
    last.shutdown(LIMIT).expect("the store answers");
    let closed = last.try_lock(key).map(drop).expect_err("closed");
    assert_eq!(closed.kind(), ErrorKind::Closed);
}

#[test]
fn a_guard_outlives_its_runtime_in_memory() {
    outlive_runtime_and_client("memory://?namespace=blocking");
}

#[cfg(feature = "redis")]
#[test]
fn a_guard_outlives_its_runtime_on_redis() {
    let server = lock_testkit::servers::RedisServer::shared();
    outlive_runtime_and_client(&server.url());
    outlive_runtime_and_client(&format!("{}?keeper=caller", server.url()));
}

#[cfg(feature = "mysql")]
#[test]
fn a_guard_outlives_its_runtime_on_mysql() {
    use lock_testkit::servers::{SqlServer, SqlVendor};

    let url = SqlServer::shared(SqlVendor::MariaDb).url();
    for settings in ["hold=lease", "hold=row", "hold=row&keeper=caller"] {
        outlive_runtime_and_client(&format!("{url}?{settings}"));
    }
}

#[cfg(feature = "etcd")]
#[test]
fn a_guard_outlives_its_runtime_on_etcd() {
    let cluster = lock_testkit::servers::EtcdCluster::shared();
    outlive_runtime_and_client(&format!("etcd://{}", cluster.endpoints()));
}

#[cfg(feature = "zookeeper")]
#[test]
fn a_guard_outlives_its_runtime_on_zookeeper() {
    let server = lock_testkit::servers::ZooKeeperServer::shared();
    outlive_runtime_and_client(&format!("zookeeper://{}", server.address()));
}

#[test]
fn errors_of_connecting_are_passed_on() {
    let error = connect("carrier-pigeon://home").map(drop).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Config);
    let registry = Registry::new();
    let locks = Client::connect(async move { registry.connect("memory://").await });
    assert!(locks.unwrap().try_lock("k").unwrap().is_some());
}
