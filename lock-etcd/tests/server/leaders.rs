//! Leaders that are killed or stand still, again and again.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use lock_core::{DistributedLock, DistributedLockExt, HoldWatch, LockRequest};
use lock_testkit::servers::{EtcdCluster, EtcdMember};
use lock_testkit::{eventually, steady};
use tokio::task::JoinSet;
use tokio::time::{Instant, timeout};

use crate::{PROMPT, connect, leases, lock_for, queue_has};

/// The resource that the lock protects. It detects overlapping holds, and tokens that do not grow.
#[derive(Default)]
struct Register {
    last: Mutex<Option<HoldWatch>>,
    highest: AtomicU64,
    visits: AtomicU64,
}

const TTL: Duration = Duration::from_secs(4);

async fn visit(locks: &impl DistributedLock, register: &Register) {
    let request = LockRequest::exclusive("k").expect("a key").with_ttl(TTL);
    let Ok(Some(guard)) = locks.acquire(request).await else {
        return;
    };
    let before = register
        .highest
        .swap(guard.token().value(), Ordering::SeqCst);
    assert!(guard.token().value() > before, "a token that does not grow");
    let last = register
        .last
        .lock()
        .expect("no panic")
        .replace(guard.watch());
    let is_overlapping = last.is_some_and(|last| last.is_held()) && guard.is_held();
    lock_testkit::assert_excluded!(!is_overlapping);
    tokio::time::sleep(Duration::from_millis(20)).await;
    register.visits.fetch_add(1, Ordering::SeqCst);
    // A release without an answer continues in the background.
    drop(guard.release().await);
}

#[test]
fn leaders_that_fail_let_nobody_in_twice_and_everybody_is_served_afterwards() {
    steady(async || {
        let cluster = EtcdCluster::start(3);
        let register = Arc::new(Register::default());
        let over = Arc::new(AtomicBool::new(false));
        let mut tasks = JoinSet::new();
        for _ in 0..6 {
            let locks = connect(cluster.url()).await;
            let (register, over) = (Arc::clone(&register), Arc::clone(&over));
            tasks.spawn(async move {
                while !over.load(Ordering::SeqCst) {
                    visit(&locks, &register).await;
                }
            });
        }
        for round in 0..6 {
            tokio::time::sleep(Duration::from_secs(2)).await;
            let leads = || async { cluster.leader().is_some() };
            eventually(PROMPT, "somebody leads", leads).await;
            let Some(leader) = cluster.leader() else {
                continue;
            };
            if round % 2 == 0 {
                leader.freeze();
                tokio::time::sleep(Duration::from_secs(2)).await;
                leader.thaw();
            } else {
                leader.restart();
            }
        }
        let before = register.visits.load(Ordering::SeqCst);
        let served = || async { register.visits.load(Ordering::SeqCst) > before + 20 };
        eventually(
            TTL * 2 + PROMPT * 2,
            "everybody is served afterwards",
            served,
        )
        .await;
        over.store(true, Ordering::SeqCst);
        while let Some(task) = timeout(PROMPT * 3, tasks.join_next())
            .await
            .expect("all end")
        {
            task.unwrap();
        }
        queue_has(&cluster, "k", 0).await;
        assert!(
            connect(cluster.url())
                .await
                .try_lock("k")
                .await
                .unwrap()
                .is_some()
        );
    });
}

/// Until the leader notices, it confirms keep-alives. Meanwhile another leader may have let the
/// leases expire.
#[test]
fn a_leader_whom_nobody_follows_keeps_nothing_alive() {
    steady(async || {
        const TTL: Duration = Duration::from_secs(6);
        // The longest election timeout for a ttl of 6 s. The leader notices after up to two
        // election timeouts.
        let cluster = EtcdCluster::start_with(3, &["--election-timeout", "4000"]);
        let leader = cluster.leader().expect("somebody leads");
        let locks = connect(format!("etcd://{}", leader.endpoint())).await;
        let guard = lock_for(&locks, "k", TTL).await;
        for follower in cluster.members() {
            if !std::ptr::eq(follower, leader) {
                follower.freeze();
            }
        }
        let alone = Instant::now();
        timeout(TTL * 3, guard.lost())
            .await
            .expect("nobody keeps it");
        assert!(alone.elapsed() < TTL, "lost after {:?}", alone.elapsed());
    });
}

/// The leader knows neither its successor nor the leases that the successor has granted.
#[test]
fn a_leader_that_stood_still_and_knows_nothing_of_a_lease_ends_no_hold() {
    steady(async || {
        let ttl = Duration::from_secs(4);
        for round in 0..3 {
            let cluster = EtcdCluster::start(3);
            let leader = cluster.leader().expect("somebody leads");
            let others = cluster.members().iter();
            let others = others.filter(|member| !std::ptr::eq(*member, leader));
            let members: Vec<String> = [leader]
                .into_iter()
                .chain(others)
                .map(EtcdMember::endpoint)
                .collect();
            let locks = connect(format!("etcd://{}", members.join(","))).await;
            // Opens the stream of keep-alives with the leader. The lease of this hold then ends.
            let early = lock_for(&locks, "early", ttl).await;
            tokio::time::sleep(ttl / 2).await;
            early.release().await.unwrap();
            eventually(PROMPT, "no lease is left", || async {
                leases(&cluster).is_empty()
            })
            .await;
            leader.freeze();
            let request = LockRequest::exclusive("k").unwrap().with_ttl(ttl);
            let guard = locks.acquire(request.waiting_at_most(PROMPT)).await;
            let guard = guard.unwrap().expect("the others serve");
            // The client sends the first keep-alive after a quarter of the ttl.
            tokio::time::sleep(guard.remaining().saturating_sub(ttl * 2 / 3)).await;
            leader.thaw();
            let lost = timeout(ttl / 2, guard.lost()).await;
            assert!(lost.is_err(), "round {round}: {lost:?}");
        }
    });
}
