//! An ensemble whose leader fails again and again.
//!
//! Holds do not overlap, tokens grow, and every waiter is served.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use lock_core::{DistributedLock, DistributedLockExt, Mode, Wait};
use lock_testkit::servers::ZooKeeperServer;
use lock_testkit::{eventually, steady};
use lock_zookeeper::ZooKeeperLock;
use tokio::task::JoinSet;
use tokio::time::{Instant, sleep, timeout};

use crate::{PROMPT, connect, request, take};

const TTL: Duration = Duration::from_secs(6);
const CONTENDERS: usize = 6;

/// The state that all contenders share.
#[derive(Default)]
struct Section {
    inside: AtomicU64,
    last_token: AtomicU64,
    grants: AtomicU64,
    over: AtomicBool,
}

/// Takes the lock again and again, and checks that no other contender counts as a holder.
async fn contend(locks: ZooKeeperLock, section: Arc<Section>) {
    while !section.over.load(Ordering::SeqCst) {
        let wanted = request("k", Mode::Exclusive).with_ttl(TTL);
        let wait = Wait::within(Duration::from_secs(20));
        let Ok(Some(guard)) = locks.acquire(wanted.with_wait(wait)).await else {
            continue;
        };
        // A grant that has expired by now enters no critical section.
        if !guard.is_held() {
            continue;
        }
        let inside = section.inside.fetch_add(1, Ordering::SeqCst);
        assert_eq!(inside, 0, "two say that they hold it");
        let token = guard.token().value();
        let before = section.last_token.swap(token, Ordering::SeqCst);
        assert!(before < token, "{before} was granted before {token}");
        section.grants.fetch_add(1, Ordering::SeqCst);
        tokio::select! {
            // The loss is reported before the next grant, so this contender leaves first.
            _lost = guard.lost() => {}
            () = sleep(Duration::from_millis(20)) => {}
        }
        section.inside.fetch_sub(1, Ordering::SeqCst);
        let _unknown = guard.release().await;
    }
}

async fn survives(disturb: impl AsyncFn(&ZooKeeperServer), minute: Duration) {
    let server = ZooKeeperServer::start_three();
    let section = Arc::<Section>::default();
    let mut contenders = JoinSet::new();
    for _ in 0..CONTENDERS {
        let locks = connect(&server, "/elections").await;
        contenders.spawn(contend(locks, Arc::clone(&section)));
    }
    let end = Instant::now() + minute;
    while Instant::now() < end {
        sleep(Duration::from_secs(5)).await;
        disturb(&server).await;
    }
    let before = section.grants.load(Ordering::SeqCst);
    eventually(6 * PROMPT, "everybody is served afterwards", || async {
        section.grants.load(Ordering::SeqCst) > before + CONTENDERS as u64
    })
    .await;
    section.over.store(true, Ordering::SeqCst);
    while let Some(ended) = contenders.join_next().await {
        ended.expect("nobody overlaps");
    }
    let locks = connect(&server, "/elections").await;
    let guard = locks.lock("k").await.expect("the ensemble runs");
    assert!(section.last_token.load(Ordering::SeqCst) < guard.token().value());
}

#[test]
fn the_end_of_any_member_costs_neither_a_hold_nor_a_place() {
    steady(async || {
        let server = ZooKeeperServer::start_three();
        let [holder, waiter] = [
            connect(&server, "/kept").await,
            connect(&server, "/kept").await,
        ];
        let wanted = || request("k", Mode::Exclusive).with_ttl(2 * TTL);
        let guard = take(&holder, wanted()).await;
        let mut waiting = JoinSet::new();
        waiting.spawn(async move { waiter.acquire(wanted()).await });
        for member in server.members() {
            member.kill();
            server.leader();
            sleep(TTL / 2).await;
            assert!(guard.is_held(), "lost with one of three members");
            member.restart();
        }
        sleep(2 * TTL).await;
        assert!(guard.is_held(), "not renewed any more");
        lock_testkit::assert_excluded!(waiting.try_join_next().is_none(), "two have it");
        drop(guard);
        let served = timeout(PROMPT, waiting.join_next()).await;
        let next = served.expect("served").unwrap().unwrap().unwrap();
        next.expect("no end").release().await.unwrap();
    });
}

#[test]
fn a_leader_that_is_killed_every_five_seconds_lets_nobody_overlap() {
    steady(async || {
        let kill = async |server: &ZooKeeperServer| {
            let leader = server.leader();
            server.member(leader).kill();
            server.leader();
            server.member(leader).restart();
        };
        survives(kill, Duration::from_secs(60)).await;
    });
}

#[test]
fn a_leader_that_stands_still_for_longer_than_a_ttl_lets_nobody_overlap() {
    steady(async || {
        let stop = async |server: &ZooKeeperServer| {
            let leader = server.leader();
            server.member(leader).freeze();
            sleep(TTL + TTL / 2).await;
            server.member(leader).thaw();
        };
        survives(stop, Duration::from_secs(60)).await;
    });
}
