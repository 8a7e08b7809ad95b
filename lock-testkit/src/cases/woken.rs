//! Every way to free a lock wakes the next waiter.

use std::time::Duration;

use lock_core::{Mode, Wait};
use tokio::task::JoinSet;
use tokio::time::{Instant, sleep};

use crate::bench::Bench;
use crate::client::{Client, SETTLE, release};
use crate::eventually::within;
use crate::join::join_all;
use crate::polls::poll_times;

pub(crate) async fn a_release_wakes_the_waiter(bench: Bench) {
    let [ours, theirs] = bench.clients().await;
    let (mut delays, mut takes) = (Vec::new(), Vec::new());
    for round in 0..9 {
        let key = format!("awaited/{round}");
        let begin = Instant::now();
        let guard = ours.take(&bench.exclusive(&key)).await;
        takes.push(begin.elapsed());
        let waiting = theirs.line_up(&bench.exclusive(&key)).await;
        release(guard).await;
        let released = Instant::now();
        let what = "the waiter served after a release";
        drop(theirs.served(waiting, what).await);
        delays.push(released.elapsed());
    }
    delays.sort_unstable();
    takes.sort_unstable();
    // Half of the delays would be long if the waiter polled. A busy machine makes some of them
    // long, and a very busy machine makes all of them long.
    if bench.capabilities().push {
        assert!(
            delays[4] < Duration::from_millis(100) + 5 * takes[4],
            "a store that pushes wakes waiters at once, not after {delays:?}"
        );
    }
}

pub(crate) async fn every_waiter_is_served(bench: Bench) {
    const WAITERS: usize = 16;
    let clients: [Client; 4] = bench.clients().await;
    let guard = clients[0].take(&bench.exclusive("popular")).await;
    let mut tasks = JoinSet::new();
    for waiter in 0..WAITERS {
        let client = clients[waiter % clients.len()].clone();
        let request = bench.exclusive("popular").with_wait(Wait::Forever);
        tasks.spawn(async move {
            let guard = client.acquire(request).await.expect("no end");
            tokio::task::yield_now().await;
            drop(guard);
        });
    }
    sleep(SETTLE).await;
    release(guard).await;
    let limit = 2 * bench.prompt();
    within(limit, "all of 16 waiters served", join_all(tasks)).await;
}

pub(crate) async fn cancelled_waiters_pass_the_wake_up_on(bench: Bench) {
    let [ours, theirs, third] = bench.clients().await;
    for round in 0..24 {
        let key = format!("passed on/{round}");
        let guard = ours.take(&bench.exclusive(&key)).await;
        let mut cancelled = theirs.line_up(&bench.exclusive(&key)).await;
        let next = if round % 2 == 0 { &theirs } else { &third };
        let waiting = next.line_up(&bench.exclusive(&key)).await;
        let polls = round / 6;
        if polls == 3 {
            drop(cancelled);
            release(guard).await;
        } else {
            release(guard).await;
            // The waiter is woken or about to be, and is dropped before, while or after it takes
            // the lock.
            drop(poll_times(&mut cancelled, polls, Duration::from_millis(20)).await);
            drop(cancelled);
        }
        let what = "the waiter behind a cancelled one served";
        drop(next.served(waiting, what).await);
    }
}

pub(crate) async fn a_removal_wakes_the_waiter(bench: Bench) {
    let [ours, theirs] = bench.clients().await;
    let key = "removed";
    // Without a push, only the expiry that the waiter knows of wakes it.
    let request = if bench.capabilities().push {
        bench.exclusive(key)
    } else {
        bench.brief(key, Mode::Exclusive)
    };
    let guard = ours.take(&request).await;
    let waiting = theirs.line_up(&bench.exclusive(key)).await;
    if bench.remove(key).await {
        let limit = bench.prompt() + bench.short();
        let next = within(limit, "the waiter served after a removal", waiting).await;
        assert!(next.expect("no end").token() > guard.token());
    }
}

pub(crate) async fn a_crash_is_waited_out(bench: Bench) {
    let client = bench.client().await;
    let ttl = bench.short();
    let before = Instant::now();
    if !bench.crash(bench.brief("orphaned", Mode::Exclusive)).await {
        return;
    }
    let waiting = client.acquire(bench.exclusive("orphaned").with_wait(Wait::Forever));
    let limit = ttl + ttl / 2 + Duration::from_secs(1);
    let guard = within(limit, "the waiter served after a crash", waiting).await;
    let waited = before.elapsed();
    assert!(
        waited + Duration::from_millis(20) >= ttl,
        "granted {waited:?} after someone took it for {ttl:?} and crashed"
    );
    drop(guard);
}

/// Passes a lock between two clients so fast that releases hit every gap of their waits.
///
/// A gap is a moment between a check of the key and the subscription to its changes.
///
/// With a third client, its release would make up for a lost wake-up.
pub(crate) async fn no_wake_up_is_lost(bench: Bench) {
    const ROUNDS: u32 = 200;
    const SLOW: Duration = Duration::from_millis(500);
    let clients: [Client; 2] = bench.clients().await;
    let mut tasks = JoinSet::new();
    for (part, client) in (0..).zip(clients) {
        let mut random = bench.random(part);
        let request = bench.exclusive("to and fro").with_wait(Wait::Forever);
        tasks.spawn(async move {
            let mut slow = Vec::new();
            for _ in 0..ROUNDS {
                let began = Instant::now();
                let guard = client.acquire(request.clone()).await.expect("no end");
                slow.extend(Some(began.elapsed()).filter(|took| *took > SLOW));
                dawdle(&mut random).await;
                release(guard).await;
                dawdle(&mut random).await;
            }
            slow
        });
    }
    let what = "a lock passed to and fro 400 times";
    let slow = within(12 * bench.prompt(), what, join_all(tasks)).await;
    let slow = slow.concat();
    // The machine may cause a few slow waits.
    assert!(
        slow.len() < 4,
        "{} of 400 waits went on until something else than a wake-up ended them: {slow:?}",
        slow.len()
    );
}

/// Waits for a short time, as long as one or several steps of a client may take.
async fn dawdle(random: &mut fastrand::Rng) {
    if random.u8(..) < 32 {
        sleep(Duration::from_micros(random.u64(..2_000))).await;
    }
    for _ in 0..random.u8(..6) {
        tokio::task::yield_now().await;
    }
}

pub(crate) async fn many_keys_are_waited_for_at_once(bench: Bench) {
    let [ours, theirs] = bench.clients().await;
    let (mut guards, mut tasks) = (Vec::new(), JoinSet::new());
    for number in 0..50 {
        let request = bench.exclusive(&format!("one of many/{number}"));
        guards.push(ours.take(&request).await);
        tasks.spawn(theirs.acquire(request.with_wait(Wait::Forever)));
    }
    sleep(SETTLE).await;
    for guard in guards {
        release(guard).await;
    }
    let what = "50 waiters served, each on a key of its own";
    drop(within(bench.prompt(), what, join_all(tasks)).await);
}
