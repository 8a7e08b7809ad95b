//! Nodes that would stay on the server because their session lives on.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use lock_core::{DistributedLock, DistributedLockExt, LockGuard, LossReason, Mode};
use lock_testkit::{eventually, steady};
use lock_zookeeper::{ZooKeeperConfig, ZooKeeperLock};
use tokio::task::JoinSet;
use tokio::time::{sleep, timeout};

use crate::PROMPT;
use crate::bed::{Bed, connect, request, take};
use crate::requests::{CREATE_CONTAINER, DELETE, Judge, Requests};

#[test]
fn an_expired_hold_whose_session_lives_on_is_given_back() {
    steady(async || {
        const TTL: Duration = Duration::from_secs(10);
        let bed = Bed::new().await;
        let (ours, theirs) = (bed.client().await, bed.direct().await);
        let guard = take(&ours, request("k", Mode::Exclusive).with_ttl(TTL)).await;
        let mut waiting = JoinSet::new();
        waiting.spawn(async move { theirs.acquire(request("k", Mode::Exclusive)).await });
        // The waiter sets its watch at once, the holder at its first renewal.
        bed.has_watches(2).await;
        bed.proxy.all().hold();
        assert_eq!(guard.lost().await, LossReason::Expired);
        // The delayed heartbeats arrive now and keep the session alive.
        bed.proxy.all().pass();
        let served = timeout(2 * TTL, waiting.join_next()).await;
        assert!(served.is_ok(), "blocked by a dead guard");
        assert!(!guard.is_held());
    });
}

/// zookeeper-client 0.11 sets many watches again in several requests.
///
/// All these requests have one id, so the driver treats the second answer as an error.
#[test]
fn many_holds_survive_a_lost_connection() {
    steady(async || {
        const TTL: Duration = Duration::from_secs(8);
        let bed = Bed::new().await;
        // One such request has no room for 200 names of this length.
        let chroot = format!("/{}", "long".repeat(125));
        let config = ZooKeeperConfig::new(format!("127.0.0.1:{}", bed.proxy.port()));
        let ours = ZooKeeperLock::connect(config.with_chroot(chroot)).await;
        let ours = ours.expect("the server runs");
        let mut guards: Vec<LockGuard> = Vec::new();
        for number in 0..200 {
            let wanted = request(&format!("{number:0>240}"), Mode::Exclusive);
            guards.push(take(&ours, wanted.with_ttl(TTL)).await);
        }
        bed.has_watches(guards.len()).await;
        assert!(guards.iter().all(LockGuard::is_held));
        bed.proxy.all().cut();
        sleep(2 * TTL).await;
        let held = guards.iter().filter(|guard| guard.is_held()).count();
        assert_eq!(held, guards.len(), "lost by a cut");
    });
}

/// Releases a lock while the server receives no deletion, for longer than its ttl.
async fn a_release_that_hangs_for_a_ttl(ttl: Duration, beside_another: bool) {
    let bed = Bed::new().await;
    let are_lost = Arc::new(AtomicBool::new(false));
    let losing = Arc::clone(&are_lost);
    let judge: Judge = Arc::new(move |kind, _| {
        let passes = kind != DELETE || !losing.load(Ordering::SeqCst);
        Box::pin(async move { passes })
    });
    let proxy = Requests::before(bed.server.member(0).port(), judge).await;
    let ours = connect(format!("127.0.0.1:{}", proxy.port)).await;
    let guard = take(&ours, request("k", Mode::Exclusive).with_ttl(ttl)).await;
    let mut others = Vec::new();
    if beside_another {
        others.push(take(&ours, request("another", Mode::Exclusive).with_ttl(ttl)).await);
    }
    are_lost.store(true, Ordering::SeqCst);
    drop(guard);
    sleep(ttl + Duration::from_secs(3)).await;
    are_lost.store(false, Ordering::SeqCst);
    // Cut the connections, as the death of a leader would, which loses unwritten changes.
    proxy.cut();
    eventually(2 * PROMPT, "the node has gone", || async {
        bed.claims("k").await.is_empty()
    })
    .await;
    drop(others);
}

#[test]
fn a_release_that_hung_for_a_ttl_is_done_in_the_end() {
    steady(async || {
        let ttls = [2000, 2500].map(Duration::from_millis);
        let mut hanging = JoinSet::new();
        for ttl in ttls {
            hanging.spawn(a_release_that_hangs_for_a_ttl(ttl, false));
            hanging.spawn(a_release_that_hangs_for_a_ttl(ttl, true));
        }
        while let Some(ended) = hanging.join_next().await {
            ended.unwrap();
        }
    });
}

/// A client that leaves a name deletes the empty levels above it.
///
/// Another client may create a node below such a level at the same time.
#[test]
fn a_level_that_is_removed_while_a_name_is_made_is_made_again() {
    steady(async || {
        let bed = Bed::new().await;
        let admin = Arc::new(bed.operator().await);
        let is_removed = Arc::new(AtomicBool::new(false));
        let judge: Judge = Arc::new(move |kind, request| {
            let makes = |path: &[u8]| request.windows(path.len()).any(|part| part == path);
            let lower = kind == CREATE_CONTAINER && makes(b"/upper/lower");
            let removes = lower && !is_removed.swap(true, Ordering::SeqCst);
            let admin = Arc::clone(&admin);
            Box::pin(async move {
                // The client's request for the upper level is on its way, so try until it exists.
                while removes && admin.delete("/upper", None).await.is_err() {
                    tokio::task::yield_now().await;
                }
                true
            })
        });
        let proxy = Requests::before(bed.server.member(0).port(), judge).await;
        let ours = connect(format!("127.0.0.1:{}", proxy.port)).await;
        let guard = ours.lock_within("upper/lower", PROMPT).await;
        assert!(matches!(guard, Ok(Some(_))), "{guard:?}");
    });
}

#[test]
fn waiters_on_a_silent_network_pile_up_no_tasks() {
    steady(async || {
        let bed = Bed::new().await;
        let ours = bed.client().await;
        bed.proxy.all().hold();
        let mut waiting = JoinSet::new();
        for number in 0..50 {
            let ours = ours.clone();
            let wanted = request(&format!("k{number}"), Mode::Exclusive);
            let wanted = wanted.with_ttl(Duration::from_secs(3));
            waiting.spawn(async move { ours.acquire(wanted).await });
        }
        let tasks = || {
            tokio::runtime::Handle::current()
                .metrics()
                .num_alive_tasks()
        };
        sleep(Duration::from_secs(5)).await;
        let before = tasks();
        sleep(Duration::from_secs(10)).await;
        assert!(tasks() < before + 50, "{before} tasks, then {}", tasks());
    });
}
