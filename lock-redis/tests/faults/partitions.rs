//! Holders cut off from a server that other clients reach: the loss is reported before the next
//! grant.

use std::time::Duration;

use lock_core::backend::KeeperRuntime;
use lock_core::{DistributedLock, HoldWatch, LockGuard, LossReason};
use lock_redis::RedisLock;
use lock_testkit::{eventually, steady};
use tokio::task::JoinSet;
use tokio::time::{Instant, timeout};

use crate::PROMPT;
use crate::bed::{Bed, exclusive, is_renewed_after, lost, take, valid_until};
use crate::stalls::Metronome;

/// The directions in which the network is silent.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Silence {
    Both,
    ToServer,
    ToClient,
}

/// A hold, and its end of validity when the network went silent.
struct Held {
    guard: LockGuard,
    ttl: Duration,
    until: Instant,
}

/// The loss and the next grant of one lock.
struct Passed {
    ttl: Duration,
    silent: Instant,
    until: Instant,
    lost: Instant,
    granted: Instant,
    held_at_grant: bool,
}

async fn hold_many(locks: &RedisLock, count: u64) -> Vec<Held> {
    let mut taking = JoinSet::new();
    for number in 0..count {
        let locks = locks.clone();
        taking.spawn(async move {
            let ttl = Duration::from_millis(1000 + 2000 * number / count);
            let guard = take(&locks, &exclusive(&format!("k{number}"), ttl)).await;
            let until = valid_until(&guard);
            Held { guard, ttl, until }
        });
    }
    let held = taking.join_all().await;
    for hold in &held {
        is_renewed_after(&hold.guard, hold.until).await;
    }
    held
}

/// Cuts off many holders while other clients wait for their locks, and checks the order of events.
async fn cut_off(count: u64, silence: Silence) {
    let bed = Bed::new();
    let (locks, direct) = (bed.client().await, bed.direct().await);
    let mut held = hold_many(&locks, count).await;
    let mut waiting = JoinSet::new();
    for hold in &held {
        let (direct, key) = (direct.clone(), hold.guard.key().as_str().to_owned());
        let watch = hold.guard.watch();
        waiting.spawn(wait_for(direct, key, watch));
    }
    eventually(PROMPT, "everybody waits", || async {
        bed.calls("pttl") >= count
    })
    .await;
    let metronome = Metronome::start();
    let silent = Instant::now();
    match silence {
        Silence::Both => bed.proxy.all().lose(),
        Silence::ToServer => bed.proxy.all().to_server().lose(),
        Silence::ToClient => bed.proxy.all().to_client().lose(),
    }
    for hold in &mut held {
        hold.until = valid_until(&hold.guard);
    }
    // Losses are timed on the keeper thread, which reports them, and not when this runtime runs.
    let keeper_runtime = KeeperRuntime::thread().expect("it runs");
    let losing: Vec<_> = held
        .into_iter()
        .map(|hold| keeper_runtime.spawn(lose(hold)).expect("it runs"))
        .collect();
    let mut grants = waiting.join_all().await;
    let mut losses = Vec::new();
    for loss in losing {
        losses.push(loss.await.expect("a loss is told"));
    }
    grants.sort_by(|a, b| a.0.cmp(&b.0));
    losses.sort_by(|a, b| a.0.guard.key().as_str().cmp(b.0.guard.key().as_str()));
    let pairs = losses.into_iter().zip(grants);
    let passed = pairs.map(|((hold, lost), (_, granted, held_at_grant))| Passed {
        ttl: hold.ttl,
        silent,
        until: hold.until,
        lost,
        granted,
        held_at_grant,
    });
    let passed: Vec<_> = passed.collect();
    assert_eq!(passed.len() as u64, count);
    assert_in_order(&passed, &metronome, silence);
}

async fn lose(hold: Held) -> (Held, Instant) {
    let reason = lost(&hold.guard).await;
    let told = Instant::now();
    assert_eq!(reason, LossReason::Expired);
    (hold, told)
}

/// Waits for the lock of another holder. Also returns true if that hold was valid at the grant.
async fn wait_for(locks: RedisLock, key: String, before: HoldWatch) -> (String, Instant, bool) {
    let answer = timeout(PROMPT * 2, locks.acquire(exclusive(&key, PROMPT * 6))).await;
    let held_at_grant = before.is_held();
    let granted = Instant::now();
    let guard = answer.expect("the lease ends").expect("the server runs");
    // Keeps the lock, so that no release follows.
    std::mem::forget(guard.expect("a wait without end is not given up"));
    (key, granted, held_at_grant)
}

fn assert_in_order(passed: &[Passed], metronome: &Metronome, silence: Silence) {
    let (mut nearest, mut latest, mut stalled) = (Duration::MAX, Duration::ZERO, 0);
    for one in passed {
        let Passed {
            ttl,
            silent,
            until,
            lost,
            granted,
            ..
        } = *one;
        lock_testkit::assert_excluded!(!one.held_at_grant, "at once, with a ttl of {ttl:?}");
        let early = until.saturating_duration_since(lost);
        assert!(
            early < Duration::from_millis(1),
            "a false alarm, {early:?} early"
        );
        if lost >= granted || lost > silent + ttl {
            let after = granted - silent;
            let excused = metronome.stalled(until, lost.max(granted));
            assert!(
                excused,
                "told {:?} after the silence, the next grant {after:?}, with a ttl of {ttl:?}",
                lost - silent
            );
            stalled += 1;
            continue;
        }
        nearest = nearest.min(granted - lost);
        latest = latest.max(lost.saturating_duration_since(until));
    }
    println!(
        "{silence:?}: {} in order, {stalled} told late by a thread that stood still; \
         the next holder at least {nearest:?} after the loss was told, \
         which was at most {latest:?} after the deadline",
        passed.len() - stalled,
    );
}

#[test]
fn two_hundred_holders_know_before_anyone_else_gets_in() {
    steady(async || {
        cut_off(200, Silence::Both).await;
    });
}

#[test]
fn holders_whose_requests_vanish_know_before_anyone_else_gets_in() {
    steady(async || {
        cut_off(40, Silence::ToServer).await;
    });
}

#[test]
fn holders_whose_answers_vanish_know_before_anyone_else_gets_in() {
    steady(async || {
        cut_off(40, Silence::ToClient).await;
    });
}

#[test]
fn every_second_renewal_cut_for_five_ttls_loses_nothing() {
    steady(async || {
        let bed = Bed::new();
        let locks = bed.client().await;
        let ttl = Duration::from_millis(2400);
        let guard = take(&locks, &exclusive("k", ttl)).await;
        let (begin, mut cuts) = (Instant::now(), 0);
        while begin.elapsed() < ttl * 5 {
            let (connections, until) = (bed.background().count(), valid_until(&guard));
            bed.background().lose_next_reply_and_cut();
            eventually(PROMPT, "a renewal is cut", || async {
                bed.background().count() > connections
            })
            .await;
            cuts += 1;
            is_renewed_after(&guard, until).await;
        }
        assert!(cuts >= 5, "{cuts} renewals were cut");
        assert!(guard.is_held());
    });
}

#[test]
fn a_silence_shorter_than_the_lease_loses_nothing() {
    steady(async || {
        let bed = Bed::new();
        let locks = bed.client().await;
        let ttl = Duration::from_secs(3);
        let guard = take(&locks, &exclusive("k", ttl)).await;
        for lossy in [false, true, false] {
            if lossy {
                bed.proxy.all().lose();
            } else {
                bed.proxy.all().hold();
            }
            let until = valid_until(&guard);
            let lost = timeout(ttl / 3, guard.lost()).await;
            assert!(lost.is_err(), "{lost:?}");
            bed.proxy.all().pass();
            is_renewed_after(&guard, until).await;
        }
    });
}
