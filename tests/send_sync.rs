//! The compiler checks that applications can send the public types and futures between threads.

use std::sync::Arc;
use std::time::Duration;

use polylock::{
    Config, DistributedLock, DistributedLockExt, Error, HoldState, HoldStates, HoldWatch, KeyInfo,
    Leaders, LockGuard, LockRequest, MemoryLock, MySqlHold,
};

fn is_shareable<T: Send + Sync + 'static>() {}

fn is_sendable<T: Send>(_: &T) {}

#[test]
fn types_are_send_and_sync() {
    is_shareable::<Arc<dyn DistributedLock>>();
    is_shareable::<LockGuard>();
    is_shareable::<polylock::blocking::Client>();
    is_shareable::<polylock::blocking::LockGuard>();
    is_shareable::<polylock::blocking::LockSet>();
    is_shareable::<HoldState>();
    is_shareable::<HoldStates>();
    is_shareable::<HoldWatch>();
    is_shareable::<KeyInfo>();
    is_shareable::<Leaders>();
    is_shareable::<LockRequest>();
    is_shareable::<MemoryLock>();
    is_shareable::<Config>();
    is_shareable::<Error>();
    is_shareable::<MySqlHold>();
    #[cfg(feature = "etcd")]
    is_shareable::<polylock::etcd::EtcdLock>();
    #[cfg(feature = "mysql")]
    is_shareable::<polylock::mysql::MySqlLock>();
    #[cfg(feature = "redis")]
    is_shareable::<polylock::redis::RedisLock>();
    #[cfg(feature = "zookeeper")]
    is_shareable::<polylock::zookeeper::ZooKeeperLock>();
}

/// These futures are not polled, so no server is needed.
#[cfg(feature = "etcd")]
#[test]
fn futures_of_etcd_can_be_spawned() {
    use polylock::etcd::{EtcdConfig, EtcdLock};

    is_sendable(&EtcdLock::connect(EtcdConfig::new("etcd://h")));
}

#[cfg(feature = "mysql")]
#[test]
fn futures_of_mysql_can_be_spawned() {
    use polylock::mysql::{MySqlConfig, MySqlLock};

    is_sendable(&MySqlLock::connect(MySqlConfig::new("mysql://u@h/d")));
}

#[cfg(feature = "redis")]
#[test]
fn futures_of_redis_can_be_spawned() {
    use polylock::redis::{RedisConfig, RedisLock};

    is_sendable(&RedisLock::connect(RedisConfig::new("redis://h")));
}

#[cfg(feature = "zookeeper")]
#[test]
fn futures_of_zookeeper_can_be_spawned() {
    use polylock::zookeeper::{ZooKeeperConfig, ZooKeeperLock};

    is_sendable(&ZooKeeperLock::connect(ZooKeeperConfig::new("h")));
}

#[tokio::test]
async fn futures_can_be_spawned() {
    let locks: Arc<dyn DistributedLock> = Arc::new(MemoryLock::new());
    is_sendable(&locks.lock("k"));
    is_sendable(&locks.try_lock_shared("k"));
    is_sendable(&locks.permit_within("k", 2, Duration::ZERO));
    is_sendable(&locks.inspect("k"));
    is_sendable(&polylock::connect("memory://"));
    let request = LockRequest::exclusive("k").unwrap();
    is_sendable(&locks.with_lock(request.clone(), async |held: HoldWatch| held.is_held()));

    let mut tasks = tokio::task::JoinSet::new();
    tasks.spawn(async move {
        let held = locks
            .with_lock(request, async |held: HoldWatch| held.is_held())
            .await;
        let guard = locks.lock("k").await;
        let (reason, released) = (guard.is_ok(), held);
        (reason, released.is_ok_and(|held| held == Some(true)))
    });
    assert_eq!(tasks.join_next().await.unwrap().unwrap(), (true, true));
}
