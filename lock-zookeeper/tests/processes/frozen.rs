//! A holder that stands still for longer than its lock lasts, and says nothing meanwhile.

use std::time::Duration;

use lock_core::{DistributedLock, DistributedLockExt, Mode};
use lock_testkit::processes::{Child, Role};
use lock_testkit::servers::ZooKeeperServer;
use lock_testkit::steady;
use tokio::time::{Instant, timeout};

use crate::{TTL, connect, request};

#[test]
fn a_process_that_stood_still_is_overtaken_in_time_and_knows_at_once() {
    steady(async || {
        let server = ZooKeeperServer::start();
        let locks = connect(server.address()).await;
        let wanted = request("k", Mode::Exclusive);
        let mut child = Child::start(server.address(), &wanted, Role::Watch);
        let token = child.token();
        child.freeze();
        let begun = Instant::now();
        let next = timeout(4 * TTL, locks.acquire(wanted)).await;
        let next = next.expect("the ttl ends the hold").unwrap();
        let next = next.expect("no end");
        let took = begun.elapsed();
        assert!(took < TTL + Duration::from_secs(1), "{took:?}");
        assert!(next.token().value() > token);
        tokio::time::sleep(TTL).await;
        child.thaw();
        assert_eq!(child.says(), "false", "its first look says that it is held");
        assert_eq!(child.says(), "true", "its loss is not told at once");
        assert_eq!(child.says(), "true", "time remains");
        child.nudge();
        assert_eq!(child.token(), token);
        assert_eq!(child.says(), "AlreadyLost");
        assert!(next.is_held());
        lock_testkit::assert_excluded!(locks.try_lock("k").await.unwrap().is_none());
    });
}
