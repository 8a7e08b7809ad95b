//! Holds whose keys another client deletes on the servers.

use std::cell::Cell;
use std::time::Duration;

use lock_core::backend::Released;
use lock_core::{DistributedLock, DistributedLockExt, LockGuard, LockRequest, LossReason};
use lock_testkit::servers::EtcdCluster;
use lock_testkit::{eventually, steady};
use tokio::time::{Instant, timeout};

use crate::compaction::compact;
use crate::{Beside, PROMPT, connect, keys, leases, lock_for, queue_has};

const TTL: Duration = Duration::from_secs(6);

/// Waits until the client watches the key of the hold, which it does from the first renewal on.
async fn is_watched(cluster: &EtcdCluster) {
    let watched = || async { cluster.first().figure("etcd_debugging_mvcc_watcher_total") > 0.0 };
    eventually(TTL, "the hold is watched", watched).await;
}

/// Waits for the next renewal.
async fn is_renewed(guard: &LockGuard) {
    let before = Cell::new(guard.remaining());
    let renewed = || async { guard.remaining() > before.replace(guard.remaining()) };
    eventually(TTL, "the hold is renewed", renewed).await;
}

#[test]
fn a_key_that_is_deleted_is_lost_at_once() {
    steady(async || {
        let cluster = EtcdCluster::start(1);
        let locks = connect(cluster.url()).await;
        let guard = lock_for(&locks, "k", TTL).await;
        is_watched(&cluster).await;
        cluster.control(&["del", "--prefix", "k/"]);
        let deleted = Instant::now();
        let reason = timeout(TTL, guard.lost()).await.expect("it is told");
        assert_eq!(reason, LossReason::Removed);
        // Sooner than the next renewal, a third of the ttl after the last one, which would notice
        // it, too.
        assert!(deleted.elapsed() < TTL / 6, "after {:?}", deleted.elapsed());
        assert!(!guard.is_held());
        assert_eq!(guard.release().await.unwrap(), Released::AlreadyLost);
    });
}

/// A watch that continues on a new stream may begin at a revision that was compacted.
#[test]
fn a_hold_whose_watch_has_missed_something_is_watched_again() {
    steady(async || {
        let cluster = EtcdCluster::start(1);
        let locks = connect(cluster.url()).await;
        let guard = lock_for(&locks, "k", TTL).await;
        is_watched(&cluster).await;
        for _ in 0..3 {
            cluster.control(&["put", "other", "value"]);
        }
        compact(&cluster);
        cluster.first().restart();
        // After the first renewal, the watch may not have started again yet.
        for _ in 0..2 {
            is_renewed(&guard).await;
        }
        cluster.control(&["del", "--prefix", "k/"]);
        let deleted = Instant::now();
        let reason = timeout(TTL, guard.lost()).await.expect("it is told");
        assert_eq!(reason, LossReason::Removed);
        assert!(deleted.elapsed() < TTL / 6, "after {:?}", deleted.elapsed());
    });
}

#[test]
fn a_key_that_is_deleted_before_it_is_watched_is_lost_too() {
    steady(async || {
        let cluster = EtcdCluster::start(1);
        let locks = connect(cluster.url()).await;
        let guard = lock_for(&locks, "k", TTL).await;
        cluster.control(&["del", "--prefix", "k/"]);
        let reason = timeout(TTL / 2, guard.lost()).await.expect("it is told");
        assert_eq!(reason, LossReason::Removed);
    });
}

#[test]
fn holds_whose_lease_is_revoked_are_lost_and_the_next_one_has_another_lease() {
    steady(async || {
        let cluster = EtcdCluster::start(1);
        let locks = connect(cluster.url()).await;
        let guards = [
            lock_for(&locks, "a", TTL).await,
            lock_for(&locks, "b", TTL).await,
        ];
        let [lease] = leases(&cluster).try_into().expect("one lease for both");
        cluster.control(&["lease", "revoke", &lease]);
        // Take at once, before the client knows of the revocation.
        let next = timeout(PROMPT, lock_for(&locks, "c", TTL)).await;
        assert!(next.expect("another lease").is_held());
        for guard in guards {
            let reason = timeout(TTL, guard.lost()).await.expect("it is told");
            assert_eq!(reason, LossReason::Removed);
        }
        let again = timeout(PROMPT, locks.lock("a")).await;
        assert!(again.expect("it is free").unwrap().is_held());
    });
}

/// A late take has this effect if it arrives after its claim was granted and deleted.
#[test]
fn a_key_that_is_deleted_and_put_there_again_is_lost() {
    steady(async || {
        let cluster = EtcdCluster::start(1);
        let locks = connect(cluster.url()).await;
        let guard = lock_for(&locks, "k", TTL).await;
        let (claims, leases) = (keys(&cluster, "k/"), leases(&cluster));
        cluster.control(&["del", &claims[0]]);
        cluster.control(&["put", &claims[0], "", "--lease", &leases[0]]);
        let reason = timeout(TTL, guard.lost()).await.expect("it is told");
        assert_eq!(reason, LossReason::Removed);
    });
}

#[test]
fn a_waiter_whose_lease_is_revoked_lines_up_again() {
    steady(async || {
        let cluster = EtcdCluster::start(1);
        let (locks, other) = (connect(cluster.url()).await, connect(cluster.url()).await);
        let guard = lock_for(&locks, "k", Duration::from_secs(30)).await;
        let held = leases(&cluster);
        // So short a ttl that the client notices the revocation before the waiter looks without an
        // event.
        let request = LockRequest::exclusive("k")
            .unwrap()
            .with_ttl(TTL / 3)
            .waiting_at_most(PROMPT * 3);
        let mut waiting = Beside::run(async move { other.acquire(request).await });
        queue_has(&cluster, "k", 2).await;
        let first_place = keys(&cluster, "k/");
        for lease in leases(&cluster) {
            if !held.contains(&lease) {
                cluster.control(&["lease", "revoke", &lease]);
            }
        }
        let anew =
            || async { keys(&cluster, "k/").len() == 2 && keys(&cluster, "k/") != first_place };
        eventually(PROMPT * 2, "it stands in the queue again", anew).await;
        guard.release().await.unwrap();
        let next = waiting.outcome().await;
        assert!(next.unwrap().is_some());
    });
}
