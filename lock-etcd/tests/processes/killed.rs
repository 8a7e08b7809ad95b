//! Processes that are killed: the others get in when the ttl is over, whatever else is renewed.

use std::time::Duration;

use lock_core::{DistributedLock, DistributedLockExt, LockRequest, Mode};
use lock_testkit::processes::{Child, Role, granted_after_a_kill};
use lock_testkit::servers::EtcdCluster;
use lock_testkit::{eventually, steady};
use tokio::time::{Instant, timeout};

use crate::{claims, connect, request, take};

const TTL: Duration = Duration::from_secs(3);

/// Longer than what a ttl could be taken for.
const LOCK_DELAY: Duration = Duration::from_secs(4);

/// What a waiter may take longer than the ttl: servers look for leases that have expired twice a
/// second.
const SLACK: Duration = Duration::from_secs(1);

/// How long it may take until another member leads, on a busy machine.
const ELECTION: Duration = Duration::from_secs(5);

/// How long a child may take until it stands in the queue.
const PROMPT: Duration = Duration::from_secs(10);

/// A child that holds `key`, renewed like any other hold.
fn holder(cluster: &EtcdCluster, mode: Mode, key: &str) -> (Child, u64) {
    let mut child = Child::start(cluster.url(), &request(key, mode, TTL), Role::Hold);
    let token = child.token();
    (child, token)
}

#[test]
fn a_killed_holder_blocks_for_its_ttl_and_no_longer() {
    steady(async || {
        let cluster = EtcdCluster::start(1);
        let locks = connect(cluster.url()).await;
        let (mut child, token) = holder(&cluster, Mode::Exclusive, "k");
        let mut waiting = Box::pin(locks.lock("k"));
        let early = timeout(TTL * 3 / 2, &mut waiting).await;
        assert!(early.is_err(), "a living holder is renewed: {early:?}");
        child.kill();
        let killed = Instant::now();
        let next = timeout(TTL + SLACK, waiting).await;
        let next = next.expect("a killed holder is waited out").unwrap();
        assert!(next.token().value() > token);
        let took = killed.elapsed();
        assert!(took > TTL / 2, "granted {took:?} after the kill");
    });
}

#[test]
fn a_killed_holder_keeps_its_key_closed_for_its_lock_delay() {
    steady(async || {
        let cluster = EtcdCluster::start(1);
        let locks = connect(cluster.url()).await;
        for mode in [Mode::Exclusive, Mode::Shared, Mode::permit(1).unwrap()] {
            let request = request("k", mode, TTL).with_lock_delay(LOCK_DELAY);
            let took = granted_after_a_kill(&locks, cluster.url(), &request).await;
            assert!(took > TTL / 2 + LOCK_DELAY, "{mode:?}: open after {took:?}");
            let limit = TTL + LOCK_DELAY + SLACK;
            assert!(took < limit, "{mode:?}: closed for {took:?}");
        }
    });
}

#[test]
fn a_waiter_that_is_killed_delays_nobody_behind_it() {
    steady(async || {
        let cluster = EtcdCluster::start(1);
        let locks = connect(cluster.url()).await;
        let holder = take(&locks, "k", Mode::Exclusive, Duration::from_secs(30)).await;
        let mut second = Child::start(
            cluster.url(),
            &request("k", Mode::Exclusive, TTL),
            Role::Hold,
        );
        let in_line = || async { claims(&cluster, "k").len() == 2 };
        eventually(PROMPT, "the child stands in the queue", in_line).await;
        let mut third = Box::pin(locks.lock("k"));
        let early = timeout(TTL / 10, &mut third).await;
        assert!(early.is_err(), "it is held: {early:?}");

        second.kill();
        let gone = || async { claims(&cluster, "k").len() == 2 };
        eventually(TTL + SLACK, "the place of the killed one is gone", gone).await;
        let early = timeout(TTL / 10, &mut third).await;
        assert!(early.is_err(), "it is still held: {early:?}");
        holder.release().await.unwrap();
        let released = Instant::now();
        let next = timeout(PROMPT, third).await.expect("its turn").unwrap();
        assert!(next.is_held());
        assert!(released.elapsed() < TTL, "after {:?}", released.elapsed());
    });
}

#[test]
fn a_living_reader_does_not_keep_a_killed_one_alive() {
    steady(async || {
        let cluster = EtcdCluster::start(1);
        let locks = connect(cluster.url()).await;
        let living = take(&locks, "k", Mode::Shared, TTL).await;
        let (mut child, _) = holder(&cluster, Mode::Shared, "k");
        assert_eq!(claims(&cluster, "k").len(), 2);
        child.kill();
        let alone = || async { claims(&cluster, "k").len() == 1 };
        eventually(TTL + SLACK, "the killed reader is over", alone).await;
        assert!(living.is_held(), "it took the living one along");
        lock_testkit::assert_excluded!(locks.try_lock("k").await.unwrap().is_none());
        living.release().await.unwrap();
        assert!(locks.try_lock("k").await.unwrap().is_some());
    });
}

#[test]
fn a_killed_permit_comes_back_beside_a_living_one() {
    steady(async || {
        let cluster = EtcdCluster::start(1);
        let locks = connect(cluster.url()).await;
        let two = Mode::permit(2).unwrap();
        let living = take(&locks, "k", two, TTL).await;
        let (mut child, token) = holder(&cluster, two, "k");
        let request = LockRequest::permit("k", 2).unwrap().with_ttl(TTL);
        let mut waiting = Box::pin(locks.acquire(request));
        let early = timeout(TTL / 4, &mut waiting).await;
        assert!(early.is_err(), "both permits are taken: {early:?}");
        child.kill();
        let next = timeout(TTL + SLACK, waiting).await;
        let next = next
            .expect("the permit comes back")
            .unwrap()
            .expect("no end");
        assert!(next.token().value() > token && living.is_held());
    });
}

/// A new leader gives every lease its full ttl again.
#[test]
fn after_a_change_of_leader_a_killed_holder_blocks_for_twice_its_ttl_at_most() {
    steady(async || {
        let cluster = EtcdCluster::start(3);
        let locks = connect(cluster.url()).await;
        let (mut child, token) = holder(&cluster, Mode::Exclusive, "k");
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

/// A program that is built with `panic = "abort"` runs no destructor either.
#[test]
fn a_program_that_aborts_blocks_for_its_ttl_and_no_longer() {
    steady(async || {
        let cluster = EtcdCluster::start(1);
        let locks = connect(cluster.url()).await;
        let request = request("k", Mode::Exclusive, TTL);
        let mut child = Child::start(cluster.url(), &request, Role::Abort);
        child.token();
        let (status, _) = child.end();
        assert!(!status.success(), "{status}");
        let refused = locks.try_lock("k").await.unwrap();
        assert!(refused.is_none(), "nobody released it");
        let next = timeout(TTL + SLACK, locks.lock("k")).await;
        assert!(next.expect("the ttl frees it").unwrap().is_held());
    });
}
