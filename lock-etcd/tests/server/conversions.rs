//! Holds that change their mode, and slots of permits: beside waiters, and over a change of leader.

use std::time::Duration;

use lock_core::{DistributedLock, ErrorKind, LockGuard, LockRequest};
use lock_etcd::EtcdLock;
use lock_testkit::servers::EtcdCluster;
use lock_testkit::{assert_excluded, eventually, steady};
use tokio::time::timeout;

use crate::{Beside, PROMPT, connect, leases, queue_has};

const TTL: Duration = Duration::from_secs(4);

fn shared(key: &str) -> LockRequest {
    LockRequest::shared(key).expect("a key").with_ttl(TTL)
}

fn upgradeable(key: &str) -> LockRequest {
    LockRequest::upgradeable(key).expect("a key").with_ttl(TTL)
}

async fn taken(locks: &EtcdLock, request: LockRequest) -> LockGuard {
    let taken = locks.acquire(request.without_waiting()).await;
    taken.expect("the cluster runs").expect("free")
}

/// Waits for the lock in a task of its own.
fn waits(locks: &EtcdLock, request: LockRequest) -> Beside<LockGuard> {
    let locks = locks.clone();
    Beside::run(async move {
        let acquired = locks.acquire(request).await;
        acquired.expect("the cluster runs").expect("no end")
    })
}

/// The reader's client knows the claims from before the upgrade. Its waiter behind a writer may not
/// rely on them when the writer gives up.
#[test]
fn a_reader_behind_a_writer_that_left_does_not_join_an_upgraded_holder() {
    steady(async || {
        let cluster = EtcdCluster::start(1);
        let (ours, theirs) = (connect(cluster.url()).await, connect(cluster.url()).await);
        // A client that lists all claims before its own, since it has no other waiter.
        let others = connect(cluster.url()).await;
        let guard = taken(&ours, upgradeable("k")).await;
        let writer = waits(&theirs, LockRequest::exclusive("k").unwrap().with_ttl(TTL));
        queue_has(&cluster, "k", 2).await;
        let mut reader = waits(&others, shared("k"));
        queue_has(&cluster, "k", 3).await;
        let guard = guard.try_upgrade().await.expect("no reader holds it");
        drop(writer);
        queue_has(&cluster, "k", 2).await;
        let waited = timeout(TTL, reader.0.join_next()).await;
        assert_excluded!(waited.is_err(), "a reader beside an exclusive holder");
        let guard = guard.downgrade().await.expect("it is held");
        let reader = reader.outcome().await;
        assert!(guard.is_held() && reader.is_held());
    });
}

/// A lease ends with the term of its leader, and its keys move to the next one.
#[test]
fn modes_and_slots_outlast_a_change_of_leader() {
    steady(async || {
        let cluster = EtcdCluster::start(1);
        let (ours, theirs) = (connect(cluster.url()).await, connect(cluster.url()).await);
        let up = taken(&ours, upgradeable("up")).await;
        let up = up.try_upgrade().await.expect("no reader holds it");
        let down = LockRequest::exclusive("down").unwrap().with_ttl(TTL);
        let down = taken(&ours, down).await.downgrade().await;
        let down = down.expect("it is held");
        let of_three = LockRequest::permit("p", 3).unwrap().with_ttl(TTL);
        let first = taken(&ours, of_three.clone()).await;
        let second = taken(&ours, of_three.clone()).await;
        assert_eq!((first.slot(), second.slot()), (Some(0), Some(1)));
        let former = leases(&cluster);
        cluster.first().restart();
        let moved = || async { leases(&cluster).iter().all(|lease| !former.contains(lease)) };
        eventually(PROMPT, "all are under another lease", moved).await;
        first.release().await.expect("the cluster runs");

        let refused = theirs.acquire(shared("up").without_waiting()).await;
        assert_excluded!(refused.expect("the cluster runs").is_none());
        let reader = taken(&theirs, shared("down")).await;
        let third = taken(&theirs, of_three.clone()).await;
        let fourth = taken(&theirs, of_three).await;
        assert_eq!((third.slot(), fourth.slot()), (Some(0), Some(2)));
        assert!(up.is_held() && down.is_held() && reader.is_held() && second.is_held());
    });
}

/// The waiting claim has the number of its arrival, which is lower than that of the changes.
#[test]
fn tokens_of_changes_come_before_that_of_a_waiting_claim() {
    steady(async || {
        let cluster = EtcdCluster::start(1);
        let (ours, theirs) = (connect(cluster.url()).await, connect(cluster.url()).await);
        let mut guard = taken(&ours, upgradeable("k")).await;
        let writer = LockRequest::exclusive("k").unwrap().with_ttl(TTL);
        let mut writer = waits(&theirs, writer);
        queue_has(&cluster, "k", 2).await;
        guard = guard.try_upgrade().await.expect("no reader holds it");
        let upgraded = guard.token();
        guard = guard.downgrade().await.expect("it is held");
        let downgraded = guard.token();
        assert!(downgraded > upgraded);
        let error = guard.try_upgrade().await.expect_err("a reader").1;
        assert_eq!(error.kind(), ErrorKind::Unsupported);
        let writer = writer.outcome().await;
        assert!(writer.token() > downgraded);
    });
}
