//! Several modes on one key.

use std::sync::Arc;

use lock_core::{LockGuard, LockRequest, Mode, Wait};
use tokio::task::JoinSet;
use tokio::time::sleep;

pub(crate) use super::permits::*;
pub(crate) use super::readers::*;
use crate::bench::{Bench, permit};
use crate::client::{Client, SETTLE, release};
use crate::eventually::within;
use crate::join::join_all;
use crate::run::assert_unsupported;
use crate::section::Section;

pub(crate) async fn undeclared_modes_are_unsupported(bench: Bench) {
    let declared = bench.modes();
    for mode in [Mode::Shared, Mode::Upgradeable, permit(2)] {
        if !declared.contains(&mode) {
            assert_unsupported(&bench, mode).await;
        }
    }
}

pub(crate) async fn permits_and_writers_exclude(bench: Bench) {
    exclude_each_other(&bench, permit(9), Mode::Exclusive).await;
}

pub(crate) async fn permits_and_readers_exclude(bench: Bench) {
    exclude_each_other(&bench, permit(9), Mode::Shared).await;
}

async fn exclude_each_other(bench: &Bench, one: Mode, other: Mode) {
    let [ours, theirs] = bench.clients().await;
    for (held, refused) in [(one, other), (other, one)] {
        let guard = ours.take(&bench.request("kinds", held)).await;
        let why = format!("{held:?} is held");
        theirs
            .is_refused(&bench.request("kinds", refused), &why)
            .await;
        release(guard).await;
    }
}

pub(crate) async fn mixed_modes_never_conflict(bench: Bench) {
    const TASKS: u64 = 12;
    let clients: [Client; 3] = bench.clients().await;
    let section = Arc::new(Section::default());
    let mut tasks = JoinSet::new();
    for task in 0..TASKS {
        let client = clients[task as usize % clients.len()].clone();
        let (section, mut random) = (Arc::clone(&section), bench.random(task));
        let (bench, modes) = (bench.clone(), bench.modes());
        tasks.spawn(async move {
            for _ in 0..8 {
                let mode = modes[random.usize(0..modes.len())];
                let request = bench.request("mixed", mode).with_wait(Wait::Forever);
                let guard = client.acquire(request).await.expect("no end");
                section.enter(mode, &mut random).await;
                assert!(guard.is_held(), "lost during its critical section");
            }
        });
    }
    within(
        12 * bench.prompt(),
        "all critical sections done",
        join_all(tasks),
    )
    .await;
}

/// Asserts that six waiters hold together after the guards `in_the_way` are released one by one.
pub(super) async fn all_enter_together(
    bench: &Bench,
    clients: &[Client],
    request: &LockRequest,
    in_the_way: Vec<LockGuard>,
    what: &str,
) {
    let mut tasks = JoinSet::new();
    for waiter in 0..6 {
        tasks.spawn(clients[waiter % clients.len()].line_up(request).await);
    }
    for guard in in_the_way {
        release(guard).await;
        sleep(SETTLE / 10).await;
    }
    let guards = within(bench.prompt(), what, join_all(tasks)).await;
    assert!(guards.iter().flatten().all(LockGuard::is_held));
}
