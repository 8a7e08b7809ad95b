//! Acquisitions that are dropped at any await leave nothing behind.

use std::time::Duration;

use lock_core::backend::Released;
use lock_core::{Mode, Wait};
use tokio::task::JoinSet;
use tokio::time::Instant;

pub(crate) use super::dropped::*;
use crate::assert_excluded;
use crate::bench::{Bench, permit};
use crate::client::{Client, release};
use crate::eventually::within;
use crate::join::join_all;
use crate::polls::{poll_times, poll_times_and_rest};

/// More polls than any acquisition needs.
pub(super) const POLLS_MAX: usize = 300;

/// The times between the last poll of an acquisition and its end.
const RESTS: [Duration; 3] = [
    Duration::ZERO,
    Duration::from_millis(2),
    Duration::from_millis(40),
];

// Each case goes through all polls twice. The first use of a store differs, for example since its
// scripts are not loaded yet.

pub(crate) async fn acquire_dropped_at_every_poll(bench: Bench) {
    drop_free_acquire(&bench, Mode::Exclusive).await;
    drop_free_acquire(&bench, Mode::Exclusive).await;
}

pub(crate) async fn shared_acquire_dropped_at_every_poll(bench: Bench) {
    drop_free_acquire(&bench, Mode::Shared).await;
    drop_free_acquire(&bench, Mode::Shared).await;
}

pub(crate) async fn permit_acquire_dropped_at_every_poll(bench: Bench) {
    drop_free_acquire(&bench, permit(2)).await;
    drop_free_acquire(&bench, permit(2)).await;
}

pub(crate) async fn waiting_dropped_at_every_poll(bench: Bench) {
    drop_waiting_acquire(&bench, Mode::Exclusive).await;
    drop_waiting_acquire(&bench, Mode::Exclusive).await;
}

pub(crate) async fn shared_waiting_dropped_at_every_poll(bench: Bench) {
    drop_waiting_acquire(&bench, Mode::Shared).await;
    drop_waiting_acquire(&bench, Mode::Shared).await;
}

pub(crate) async fn permit_waiting_dropped_at_every_poll(bench: Bench) {
    drop_waiting_acquire(&bench, permit(2)).await;
    drop_waiting_acquire(&bench, permit(2)).await;
}

async fn drop_free_acquire(bench: &Bench, mode: Mode) {
    let [client, other] = bench.clients().await;
    let request = bench.request("cancelled", mode).with_wait(Wait::Forever);
    // Drop it at once, when the driver may not have sent the request, and when it is answered.
    for (polls, rest) in (0..POLLS_MAX).flat_map(|polls| RESTS.map(|rest| (polls, rest))) {
        let acquiring = client.acquire(request.clone());
        let acquired = poll_times_and_rest(acquiring, polls, bench.prompt(), rest).await;
        let completed = acquired.is_some();
        drop(acquired);
        let what = format!("free after {mode:?} was dropped at poll {polls}");
        assert_free(bench, &other, "cancelled", &what).await;
        if completed {
            return;
        }
    }
    panic!("not acquired after {POLLS_MAX} polls");
}

/// Drops waiters at every poll, while the holder stays and while it releases.
async fn drop_waiting_acquire(bench: &Bench, mode: Mode) {
    let [holder, client, other] = bench.clients().await;
    let request = bench.request("cancelled", mode).with_wait(Wait::Forever);
    for (polls, rest) in (0..POLLS_MAX).flat_map(|polls| RESTS.map(|rest| (polls, rest))) {
        // A waiter that was dropped just before may briefly get the lock, where the store serves
        // each connection in its own time.
        let guard = holder.wait_for(&bench.exclusive("cancelled")).await;
        if polls < 4 {
            let waiting = client.acquire(request.clone());
            let patience = Duration::from_millis(20);
            let early = poll_times(waiting, polls, patience).await;
            assert_excluded!(early.is_none(), "{mode:?} was granted although it is held");
        }
        let mut releasing = JoinSet::new();
        let waiting = async {
            releasing.spawn(guard.release());
            client.acquire(request.clone()).await
        };
        let acquired = poll_times_and_rest(waiting, polls, bench.prompt(), rest).await;
        let completed = acquired.is_some();
        drop(acquired);
        join_all(releasing).await;
        let what = format!("free after waiting for {mode:?} was dropped at poll {polls}");
        assert_free(bench, &other, "cancelled", &what).await;
        if completed {
            return;
        }
    }
    panic!("not acquired after {POLLS_MAX} polls");
}

pub(super) async fn assert_free(bench: &Bench, client: &Client, key: &str, what: &str) {
    let request = bench.exclusive(key).with_wait(Wait::Forever);
    let guard = within(bench.prompt(), what, client.acquire(request)).await;
    let released = release(guard.expect("no end")).await;
    assert_eq!(released, Released::Released);
}

pub(crate) async fn a_thousand_cancelled_acquisitions_leave_nothing(bench: Bench) {
    const TASKS: u64 = 20;
    const ROUNDS: u64 = 50;
    let clients: [Client; 3] = bench.clients().await;
    let longest = 3 * round_trip(&bench, &clients[0]).await;
    let modes = bench.modes();
    let mut tasks = JoinSet::new();
    for task in 0..TASKS {
        let client = clients[task as usize % clients.len()].clone();
        let (mut random, modes, bench) = (bench.random(task), modes.clone(), bench.clone());
        tasks.spawn(async move {
            for _ in 0..ROUNDS {
                let key = format!("cancelled/{}", random.u8(0..10));
                let mode = modes[random.usize(0..modes.len())];
                let limit = longest.mul_f64(random.f64());
                // Dropped by the caller, or given up at its own limit.
                if random.bool() {
                    let request = bench.request(&key, mode).with_wait(Wait::Forever);
                    tokio::select! {
                        guard = client.acquire(request) => drop(guard),
                        () = spin(limit) => {}
                    }
                } else {
                    let request = bench.request(&key, mode).waiting_at_most(limit);
                    drop(client.acquire_briefly(request).await);
                }
            }
        });
    }
    within(
        12 * bench.prompt(),
        "all acquisitions cancelled",
        join_all(tasks),
    )
    .await;
}

/// Waits for `duration` to the microsecond, since timers have a precision of a millisecond.
async fn spin(duration: Duration) {
    let end = Instant::now() + duration;
    while Instant::now() < end {
        tokio::task::yield_now().await;
    }
}

/// Returns the shortest time to take and release a free lock.
async fn round_trip(bench: &Bench, client: &Client) -> Duration {
    let request = bench.exclusive("measured");
    let mut times = Vec::new();
    for _ in 0..5 {
        let began = Instant::now();
        let guard = client.take(&request).await;
        release(guard).await;
        times.push(began.elapsed());
    }
    times.into_iter().min().expect("five")
}
