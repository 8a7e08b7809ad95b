//! A holder that stands still for longer than its lock lasts, and says nothing meanwhile.

use std::time::Duration;

use lock_core::{DistributedLockExt, Mode};
use lock_testkit::processes::{Child, Role};
use lock_testkit::servers::{SqlServer, SqlVendor};
use lock_testkit::steady;
use tokio::time::{Instant, timeout};

use crate::{BOTH, connect, request, store};

#[test]
fn a_process_that_stood_still_is_overtaken_in_time_and_knows_at_once() {
    steady(async || {
        const TTL: Duration = Duration::from_secs(2);
        for vendor in SqlVendor::available() {
            for hold in BOTH {
                let server = SqlServer::start(vendor);
                let locks = connect(server.url(), hold).await;
                let request = request("k", Mode::Exclusive, TTL);
                let mut child = Child::start(store(&server, hold), &request, Role::Watch);
                let token = child.token();
                child.freeze();
                let begun = Instant::now();
                let next = timeout(TTL * 4, locks.lock("k")).await;
                let next = next.expect("the ttl ends the hold").expect("it runs");
                let took = begun.elapsed();
                let limit = TTL + Duration::from_secs(1);
                assert!(took < limit, "{vendor:?} {hold:?}: {took:?}");
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
                lock_testkit::assert_excluded!(
                    locks.try_lock("k").await.expect("it runs").is_none()
                );
            }
        }
    });
}
