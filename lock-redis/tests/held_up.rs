//! A keeper thread that is blocked. A process has one such thread, so this test has its own
//! process.

use std::time::Duration;

use lock_core::backend::KeeperRuntime;
use lock_core::{DistributedLock, LockRequest, LossReason};
use lock_redis::{RedisConfig, RedisLock};
use lock_testkit::servers::RedisServer;
use lock_testkit::steady;
use tokio::time::{Instant, timeout};

#[test]
fn a_keeper_that_is_held_up_does_not_hold_up_the_loss() {
    steady(async || {
        let ttl = Duration::from_secs(1);
        let server = RedisServer::start();
        let locks = RedisLock::connect(RedisConfig::new(server.url())).await;
        let request = LockRequest::exclusive("k").unwrap().with_ttl(ttl);
        let sent = Instant::now();
        let guard = locks.unwrap().acquire(request).await.unwrap().unwrap();
        let (held_up, go_on) = std::sync::mpsc::channel::<()>();
        let blocking = KeeperRuntime::thread().unwrap().spawn(async move {
            // Blocks the keeper thread until the test ends.
            let _done = go_on.recv();
        });
        let told = timeout(ttl * 3, guard.lost()).await;
        let after = sent.elapsed();
        drop(held_up);
        blocking.unwrap().await.unwrap();
        assert_eq!(told.expect("told"), LossReason::Expired);
        assert!(after <= ttl + ttl / 2, "told after {after:?}");
    });
}
