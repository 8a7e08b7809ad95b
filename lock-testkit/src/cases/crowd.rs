//! A crowd of waiters for one key.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use lock_core::Wait;
use tokio::task::JoinSet;

use crate::assert_excluded;
use crate::bench::Bench;
use crate::client::{Client, release};
use crate::eventually::within;
use crate::join::join_all;

/// Number of waiters without a limit.
const PATIENT: usize = 200;
/// Number of waiters with a limit of less than half a second.
const IMPATIENT: usize = 100;

pub(crate) async fn a_crowd_is_served_or_told_busy(bench: Bench) {
    let holder = bench.client().await;
    let clients: [Client; 4] = bench.clients().await;
    let held = holder.take(&bench.exclusive("crowd")).await;
    let (mut patient, mut impatient) = (JoinSet::new(), JoinSet::new());
    let is_taken = Arc::<AtomicBool>::default();
    let mut random = bench.random(0);
    for number in 0..PATIENT + IMPATIENT {
        let client = clients[number % clients.len()].clone();
        let request = bench.exclusive("crowd");
        if number % 3 == 0 && impatient.len() < IMPATIENT {
            let limit = Duration::from_millis(random.u64(50..400));
            impatient.spawn(client.acquire_briefly(request.waiting_at_most(limit)));
            continue;
        }
        let is_taken = Arc::clone(&is_taken);
        patient.spawn(async move {
            let guard = client.acquire(request.with_wait(Wait::Forever)).await;
            let guard = guard.expect("no end");
            let alone = !is_taken.swap(true, Ordering::SeqCst);
            assert_excluded!(alone || !guard.is_held(), "two of a crowd hold the key");
            tokio::task::yield_now().await;
            is_taken.store(false, Ordering::SeqCst);
            release(guard).await;
        });
    }
    let what = "those of a crowd told busy who wait for a while only";
    let told = within(bench.prompt(), what, join_all(impatient)).await;
    let none = told.iter().all(Option::is_none);
    assert_excluded!(none || !held.is_held(), "one of a crowd in beside {held:?}");
    assert!(held.is_held(), "{held:?} was lost");
    release(held).await;
    let what = "all of a crowd served";
    within(2 * bench.prompt(), what, join_all(patient)).await;
}
