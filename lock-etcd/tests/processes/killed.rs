//! A holder that is killed shortly before the leader of its cluster.

use std::time::Duration;

use lock_core::{DistributedLockExt, LockRequest};
use lock_testkit::processes::{Child, Role};
use lock_testkit::servers::EtcdCluster;
use lock_testkit::steady;
use tokio::time::{Instant, timeout};

use crate::connect;

const TTL: Duration = Duration::from_secs(3);

/// The time that an election may take on a busy machine.
const ELECTION: Duration = Duration::from_secs(5);

/// A new leader extends every lease to its full ttl.
#[test]
fn after_a_change_of_leader_a_killed_holder_blocks_for_twice_its_ttl_at_most() {
    steady(async || {
        let cluster = EtcdCluster::start(3);
        let locks = connect(cluster.url()).await;
        let request = LockRequest::exclusive("k").expect("a key").with_ttl(TTL);
        let mut child = Child::start(cluster.url(), &request, Role::Hold);
        let token = child.token();
        child.kill();
        let killed = Instant::now();
        cluster.leader().expect("somebody leads").kill();
        let next = timeout(TTL * 2 + ELECTION, locks.lock("k")).await;
        let next = next.expect("a killed holder is waited out").unwrap();
        assert!(next.token().value() > token);
        let took = killed.elapsed();
        assert!(took > TTL / 2, "granted {took:?} after the kill");
    });
}
