//! Used keys leave nothing on the store.

use std::time::Duration;

use lock_core::Mode;
use tokio::task::JoinSet;

use crate::bench::{Bench, permit};
use crate::client::{Client, release};
use crate::eventually::{becomes_true, within};
use crate::join::join_all;

/// Checks the store under test: if it hides holds, every other case finds an empty store.
pub(crate) async fn holds_are_seen(bench: Bench) {
    let client = bench.client().await;
    for mode in bench.modes() {
        let guard = client.take(&bench.request("seen", mode)).await;
        let seen = bench.residue().await;
        assert!(
            !seen.is_empty(),
            "the store under test does not show a hold of {mode:?}"
        );
        release(guard).await;
        bench.nothing_is_left().await;
    }
}

pub(crate) async fn a_thousand_names_leave_nothing(bench: Bench) {
    const TASKS: usize = 20;
    let clients: [Client; 3] = bench.clients().await;
    let mut tasks = JoinSet::new();
    for task in 0..TASKS {
        let (client, bench) = (clients[task % clients.len()].clone(), bench.clone());
        tasks.spawn(async move {
            let modes = bench.modes();
            for name in 0..1000 / TASKS {
                let mode = modes[name % modes.len()];
                let request = bench.request(&format!("used once/{task}/{name}"), mode);
                let guard = client.take(&request).await;
                release(guard).await;
            }
        });
    }
    within(
        12 * bench.prompt(),
        "a thousand names used",
        join_all(tasks),
    )
    .await;
}

pub(crate) async fn given_up_waits_leave_nothing(bench: Bench) {
    let [ours, theirs] = bench.clients().await;
    for held in bench.modes() {
        let guard = ours.take(&bench.request("held", held)).await;
        let before = bench.residue().await.len();
        let mut waits = JoinSet::new();
        for number in 0..30 {
            let mode = if held == Mode::Exclusive {
                bench.modes()[number % bench.modes().len()]
            } else {
                Mode::Exclusive
            };
            let limit = Duration::from_millis(number as u64);
            let request = bench.request("held", mode).waiting_at_most(limit);
            waits.spawn(theirs.acquire_briefly(request));
        }
        let granted = within(2 * bench.prompt(), "30 short waits over", join_all(waits)).await;
        assert!(
            granted.iter().all(Option::is_none),
            "granted although it is held"
        );
        becomes_true(bench.prompt(), || async {
            bench.residue().await.len() <= before
        })
        .await;
        let left = bench.residue().await;
        assert!(
            left.len() <= before,
            "besides the hold, waiters left {left:?}"
        );
        drop(guard);
        // The next claim must not wait behind a waiter that is gone.
        let next = theirs.wait_for(&bench.exclusive("held")).await;
        release(next).await;
    }
}

pub(crate) async fn abandoned_permits_leave_nothing(bench: Bench) {
    let client = bench.client().await;
    let request = bench.request("pool", permit(3));
    for _ in 0..20 {
        let guards = [
            client.wait_for(&request).await,
            client.wait_for(&request).await,
        ];
        drop(guards);
    }
}
