//! Waiters end in time, and are served in order.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use lock_core::backend::Released;
use lock_core::{LockGuard, LockRequest, Wait};
use tokio::task::JoinSet;
use tokio::time::{Instant, sleep};

pub(crate) use super::crowd::*;
pub(crate) use super::woken::*;
use crate::assert_excluded;
use crate::bench::Bench;
use crate::client::{Client, SETTLE, Waiting, keeps_waiting, release};
use crate::eventually::{eventually, within};
use crate::join::join_all;
use crate::polls::poll_times;

pub(crate) async fn no_wait_answers_at_once(bench: Bench) {
    let [ours, theirs] = bench.clients().await;
    let guard = ours.take(&bench.exclusive("held")).await;
    let now = Instant::now();
    let past = now.checked_sub(Duration::from_secs(1)).unwrap_or(now);
    for wait in [Wait::No, Wait::within(Duration::ZERO), Wait::Until(past)] {
        let request = bench.exclusive("held").with_wait(wait);
        let what = format!("an answer to {wait:?}");
        let answer = within(bench.prompt() / 2, &what, theirs.acquire(request)).await;
        assert_excluded!(answer.is_none(), "granted although another client holds it");
    }
    drop(guard);
}

pub(crate) async fn a_limited_wait_ends_in_time(bench: Bench) {
    const LIMIT: Duration = Duration::from_millis(300);
    let [ours, theirs] = bench.clients().await;
    // The first request of a client may also open connections, sessions and leases.
    drop(theirs.take(&bench.exclusive("other")).await);
    let guard = ours.take(&bench.exclusive("held")).await;
    let mut excesses = Vec::new();
    for _ in 0..3 {
        let began = Instant::now();
        let request = bench.exclusive("held").waiting_at_most(LIMIT);
        let answer = within(
            bench.prompt(),
            "the end of a wait of 300 ms",
            theirs.acquire(request),
        )
        .await;
        assert_excluded!(answer.is_none(), "granted although another client holds it");
        let took = began.elapsed();
        assert!(
            took + Duration::from_millis(20) >= LIMIT,
            "a wait of {LIMIT:?} was given up after {took:?}"
        );
        excesses.push(took.saturating_sub(LIMIT));
    }
    // The machine may be busy during one of the waits.
    let best = excesses.iter().min().expect("three");
    assert!(
        *best < Duration::from_millis(200),
        "waits of {LIMIT:?} end late, by {excesses:?}"
    );
    drop(guard);
}

pub(crate) async fn a_very_long_wait_is_a_wait(bench: Bench) {
    let [ours, theirs] = bench.clients().await;
    // Just above the range of 31 and 32 bits for milliseconds and seconds, and above any clock.
    let bits = [1 << 31, 1 << 32].map(|bits| bits + 10);
    let limits = bits.map(Duration::from_millis).into_iter();
    let limits = limits.chain(bits.map(Duration::from_secs));
    for limit in limits.chain([Duration::MAX]) {
        let guard = ours.take(&bench.exclusive("held")).await;
        let request = bench.exclusive("held").waiting_at_most(limit);
        let mut waiting: Waiting = Box::pin(theirs.acquire(request));
        keeps_waiting(&mut waiting, SETTLE).await;
        release(guard).await;
        let next = theirs.served(waiting, "a very patient waiter served").await;
        release(next).await;
    }
}

pub(crate) async fn a_wait_outlasts_its_ttl(bench: Bench) {
    let [ours, theirs] = bench.clients().await;
    let mut tasks = JoinSet::new();
    for mode in bench.modes() {
        let (bench, ours, theirs) = (bench.clone(), ours.clone(), theirs.clone());
        tasks.spawn(async move {
            let key = format!("held/{mode:?}");
            let guard = ours.take(&bench.exclusive(&key)).await;
            let mut waiting = theirs.line_up(&bench.brief(&key, mode)).await;
            keeps_waiting(&mut waiting, bench.short() * 3 / 2).await;
            release(guard).await;
            let what = "a waiter served that waited for longer than its ttl";
            let next = theirs.served(waiting, what).await;
            // The grant is as good as a grant without a wait.
            let left = next.remaining();
            assert!(left > bench.short() / 3, "only {left:?} remain at once");
            sleep(bench.short() / 2).await;
            assert_eq!(release(next).await, Released::Released);
        });
    }
    join_all(tasks).await;
}

pub(crate) async fn waiters_of_one_client_are_served_in_order(bench: Bench) {
    let [holder, client] = bench.clients().await;
    served_in_order(&bench, &holder, &[client]).await;
}

pub(crate) async fn waiters_of_all_clients_are_served_in_order(bench: Bench) {
    let holder = bench.client().await;
    let clients: [Client; 3] = bench.clients().await;
    served_in_order(&bench, &holder, &clients).await;
}

async fn served_in_order(bench: &Bench, holder: &Client, clients: &[Client]) {
    const WAITERS: usize = 9;
    let guard = holder.take(&bench.exclusive("queue")).await;
    let order = Arc::new(Mutex::new(Vec::new()));
    let mut tasks = JoinSet::new();
    for waiter in 0..WAITERS {
        let client = &clients[waiter % clients.len()];
        let waiting = bench.line_up(client, &bench.exclusive("queue")).await;
        let order = Arc::clone(&order);
        tasks.spawn(async move {
            let guard = waiting.await.expect("no end");
            order.lock().expect("no panic under it").push(waiter);
            release(guard).await;
        });
    }
    release(guard).await;
    within(2 * bench.prompt(), "all waiters served", join_all(tasks)).await;
    let order = order.lock().expect("no panic under it");
    assert!(
        order.is_sorted(),
        "waiters came in order 0, 1, 2 … and were served as {order:?}"
    );
}

pub(crate) async fn a_busy_client_starves_nobody(bench: Bench) {
    let [busy, patient] = bench.clients().await;
    let (stop, grants) = (
        Arc::new(AtomicBool::new(false)),
        Arc::new(AtomicU64::new(0)),
    );
    let mut tasks = JoinSet::new();
    for _ in 0..4 {
        let (busy, stop, grants) = (busy.clone(), Arc::clone(&stop), Arc::clone(&grants));
        let request = bench.exclusive("busy").with_wait(Wait::Forever);
        tasks.spawn(async move {
            while !stop.load(Ordering::Relaxed) {
                let guard = busy.acquire(request.clone()).await.expect("no end");
                grants.fetch_add(1, Ordering::Relaxed);
                tokio::task::yield_now().await;
                release(guard).await;
            }
        });
    }
    let limit = 4 * bench.prompt();
    for _ in 0..5 {
        let goal = grants.load(Ordering::Relaxed) + 5;
        let at_work = || async { goal <= grants.load(Ordering::Relaxed) };
        eventually(limit, "the busy client at work", at_work).await;
        let waiting = patient.acquire(bench.exclusive("busy").with_wait(Wait::Forever));
        let what = "a client served while another one takes the lock again and again";
        release(within(limit, what, waiting).await.expect("no end")).await;
    }
    stop.store(true, Ordering::Relaxed);
    within(bench.prompt(), "the busy client done", join_all(tasks)).await;
}

pub(crate) async fn a_waiter_blocks_no_other_key(bench: Bench) {
    let [ours, theirs] = bench.clients().await;
    let guard = ours.take(&bench.exclusive("held")).await;
    // In tasks, since a waiter that is not polled gives up its place.
    let mut waiters = JoinSet::new();
    for _ in 0..4 {
        waiters.spawn(theirs.line_up(&bench.exclusive("held")).await);
    }
    for number in 0..20 {
        let request = bench.exclusive(&format!("free/{number}"));
        let free = theirs.take(&request).await;
        release(free).await;
    }
    // Waiters of other keys are not blocked either. Use many keys, since keys may share a bucket.
    let (mut others, mut tasks) = (Vec::new(), JoinSet::new());
    for letter in 'a'..='z' {
        let request = bench.exclusive(&format!("awaited/{letter}"));
        others.push(ours.take(&request).await);
        tasks.spawn(theirs.acquire(request.with_wait(Wait::Forever)));
    }
    sleep(SETTLE).await;
    for other in others {
        release(other).await;
    }
    let what = "the waiters of other keys served while a key stays held";
    drop(within(bench.prompt(), what, join_all(tasks)).await);
    assert_eq!(waiters.len(), 4);
    assert!(waiters.try_join_next().is_none(), "the key is held");
    waiters.shutdown().await;
    drop(guard);
}

pub(crate) async fn a_try_waits_for_a_release_of_its_own_client(bench: Bench) {
    let client = bench.client().await;
    let free = bench.exclusive("own");
    for mode in bench.modes() {
        for round in 0..15 {
            let limited = bench
                .request("own", mode)
                .holding_at_most(Duration::from_millis(20));
            let request = match round % 5 {
                0 => limited,
                _ => bench.request("own", mode),
            };
            let what = format!("{mode:?}, round {round}");
            let guard = try_after_release(&client, &request, &what).await;
            let tried = try_after_release(&client, &free, &what);
            drop(match round % 5 {
                0 => {
                    guard.lost().await;
                    let tried = tried.await;
                    drop(guard);
                    tried
                }
                1 => {
                    drop(poll_times(guard.release(), 1, bench.prompt()).await);
                    tried.await
                }
                2 => {
                    // The futures are polled in this order, so the release begins first.
                    tokio::join!(release(guard), tried).1
                }
                _ => {
                    drop(guard);
                    tried.await
                }
            });
        }
        for polls in 1..8 {
            let cancelled = client.acquire(bench.request("own", mode));
            drop(poll_times(cancelled, polls, Duration::from_millis(5)).await);
            let what = format!("{mode:?}, cancelled at poll {polls}");
            drop(try_after_release(&client, &free, &what).await);
        }
    }
}

/// Takes a lock that only a release of the same client may still block. While the store stalls, a
/// try waits for that release for two seconds, and then may be refused.
async fn try_after_release(client: &Client, request: &LockRequest, what: &str) -> LockGuard {
    let began = Instant::now();
    if let Some(guard) = client.try_take(request).await {
        return guard;
    }
    let waited = began.elapsed();
    assert!(
        Duration::from_secs(2) <= waited,
        "refused by a release of its own client that is under way, after {waited:?}, {what}"
    );
    client.wait_for(request).await
}
