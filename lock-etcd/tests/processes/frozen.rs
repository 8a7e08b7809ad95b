//! A holder that stands still for longer than its lease, and goes on as if nothing had happened.

use std::time::Duration;

use lock_core::{DistributedLockExt, Mode};
use lock_testkit::processes::{Child, Role};
use lock_testkit::servers::EtcdCluster;
use lock_testkit::steady;
use tokio::time::timeout;

use crate::{connect, request};

/// What the lock protects: it refuses a token lower than the highest that it has seen.
#[derive(Default)]
struct FencedRegister {
    highest: u64,
}

impl FencedRegister {
    fn write(&mut self, token: u64) -> bool {
        let accepted = token >= self.highest;
        self.highest = self.highest.max(token);
        accepted
    }
}

#[test]
fn a_process_that_stood_still_knows_at_once_and_its_late_write_is_refused() {
    steady(async || {
        const TTL: Duration = Duration::from_secs(2);
        let cluster = EtcdCluster::start(1);
        let locks = connect(cluster.url()).await;
        let mut register = FencedRegister::default();
        let request = request("k", Mode::Exclusive, TTL);
        let mut child = Child::start(cluster.url(), &request, Role::Watch);
        let token = child.token();
        assert!(register.write(token));

        child.freeze();
        let next = timeout(TTL + Duration::from_secs(6), locks.lock("k")).await;
        let next = next.expect("the ttl ends the hold").unwrap();
        assert!(register.write(next.token().value()));
        tokio::time::sleep(TTL).await;
        child.thaw();

        assert_eq!(child.says(), "false", "its first look says that it is held");
        assert_eq!(
            child.says(),
            "true",
            "its loss is not told at the first poll"
        );
        assert_eq!(child.says(), "true", "time remains");
        child.nudge();
        let late: u64 = child.says().parse().expect("its token");
        assert_eq!(late, token);
        assert!(!register.write(late), "the late write was accepted");
        assert_eq!(child.says(), "AlreadyLost");
        assert!(next.is_held(), "the late release freed it");
    });
}
