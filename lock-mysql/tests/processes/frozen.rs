//! A holder that stands still for longer than its lock lasts, and says nothing meanwhile.

use std::time::Duration;

use lock_core::DistributedLockExt;
use lock_testkit::servers::{SqlServer, SqlVendor};
use tokio::time::{Instant, timeout};

use crate::child::Child;
use crate::{BOTH, connect};

#[tokio::test(flavor = "multi_thread")]
async fn a_process_that_stood_still_is_overtaken_in_time_and_knows_at_once() {
    const TTL: Duration = Duration::from_secs(2);
    for vendor in SqlVendor::available() {
        for (hold, name) in BOTH.into_iter().zip(["lease", "row"]) {
            let server = SqlServer::start(vendor);
            let locks = connect(server.url(), hold).await;
            let role = format!("watch {name} k {}", TTL.as_millis());
            let mut child = Child::start(&server, &role);
            let token: u64 = child.says().parse().expect("its token");
            child.freeze();
            let begun = Instant::now();
            let next = timeout(TTL * 4, locks.lock("k")).await;
            let next = next.expect("the ttl ends the hold").expect("it runs");
            let took = begun.elapsed();
            let limit = TTL + Duration::from_secs(1);
            assert!(took < limit, "{vendor:?} {name}: {took:?}");
            assert!(next.token().value() > token);
            tokio::time::sleep(TTL).await;
            child.thaw();
            assert_eq!(child.says(), "false", "its first look says that it is held");
            assert_eq!(child.says(), "AlreadyLost");
            assert!(next.is_held());
            assert!(locks.try_lock("k").await.expect("it runs").is_none());
        }
    }
}
