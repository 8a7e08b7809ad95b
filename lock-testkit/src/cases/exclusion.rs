//! A held lock is refused to all other claims.

use std::sync::Arc;
use std::time::Duration;

use lock_core::backend::Released;
use lock_core::{LockGuard, Mode, Wait};
use tokio::sync::Barrier;
use tokio::task::JoinSet;
use tokio::time::sleep;

use super::names::odd_names;
use crate::assert_excluded;
use crate::bench::Bench;
use crate::client::{Client, release};
use crate::eventually::within;
use crate::join::{join_all, joined};
use crate::polls::poll_times;
use crate::section::Section;

pub(crate) async fn a_held_lock_is_refused(bench: Bench) {
    let [ours, theirs] = bench.clients().await;
    let request = bench.exclusive("held");
    let guard = ours.take(&request).await;
    assert_eq!(guard.key(), &request.key);
    assert_eq!(guard.mode(), Mode::Exclusive);
    assert!(guard.is_held(), "a fresh guard says that it is not held");
    theirs.is_refused(&request, "another client holds it").await;
    ours.is_refused(&request, "the same client holds it").await;
    assert!(guard.is_held(), "the hold ended while others were refused");
    assert_eq!(release(guard).await, Released::Released);
    let next = theirs.take(&request).await;
    ours.is_refused(&request, "the next client holds it").await;
    drop(next);
}

pub(crate) async fn critical_sections_never_overlap(bench: Bench) {
    const TASKS: u64 = 12;
    const ROUNDS: u64 = 10;
    let clients: [Client; 3] = bench.clients().await;
    let (section, start) = (Arc::new(Section::default()), Arc::new(Barrier::new(12)));
    let mut tasks = JoinSet::new();
    for task in 0..TASKS {
        let client = clients[task as usize % clients.len()].clone();
        let (section, start) = (Arc::clone(&section), Arc::clone(&start));
        let (request, mut random) = (bench.exclusive("contended"), bench.random(task));
        tasks.spawn(async move {
            let mut grants = 0;
            for round in 0..ROUNDS {
                // All tasks request a free lock at once, so checking and taking must be atomic.
                start.wait().await;
                let waits = (task + round) % 2 == 0;
                let wait = if waits { Wait::Forever } else { Wait::No };
                let guard = client.acquire(request.clone().with_wait(wait)).await;
                let Some(guard) = guard else { continue };
                section.enter(Mode::Exclusive, &mut random).await;
                assert!(guard.is_held(), "lost during its critical section");
                release(guard).await;
                grants += 1;
            }
            grants
        });
    }
    let limit = 12 * bench.prompt();
    let grants = within(limit, "all critical sections done", join_all(tasks)).await;
    let grants: u64 = grants.iter().sum();
    assert_excluded!(section.counter() == grants, "updates were lost");
    assert!(
        grants >= TASKS * ROUNDS / 2,
        "a wait without end was given up"
    );
}

pub(crate) async fn one_thread_is_enough(bench: Bench) {
    let living = tokio::task::spawn_blocking(move || {
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build()
            .expect("a runtime with one thread");
        runtime.block_on(async {
            let [ours, theirs] = bench.clients().await;
            let request = bench.exclusive("single");
            let guard = ours.take(&request).await;
            theirs.is_refused(&request, "another client holds it").await;
            let mut tasks = JoinSet::new();
            tasks.spawn(theirs.acquire(request.clone().with_wait(Wait::Forever)));
            sleep(Duration::from_millis(20)).await;
            drop(guard);
            let what = "a waiter served on a runtime with one thread";
            let mut guards = within(bench.prompt(), what, join_all(tasks)).await;
            release(guards.pop().flatten().expect("no end")).await;
        });
    });
    joined(living.await);
}

pub(crate) async fn keys_are_independent(bench: Bench) {
    let [ours, theirs] = bench.clients().await;
    let mut guards = Vec::new();
    for number in 0..20 {
        let client = if number % 2 == 0 { &ours } else { &theirs };
        let request = bench.exclusive(&format!("independent/{number}"));
        guards.push(client.take(&request).await);
    }
    release(guards.swap_remove(7)).await;
    for guard in &guards {
        assert!(
            guard.is_held(),
            "{guard:?} ended with another key's release"
        );
        let request = bench.exclusive(guard.key().as_str());
        theirs
            .is_refused(&request, "another key was released")
            .await;
    }
}

pub(crate) async fn similar_names_are_different_locks(bench: Bench) {
    let client = bench.client().await;
    let mut guards: Vec<LockGuard> = Vec::new();
    for name in odd_names() {
        let Some(guard) = client.try_take(&bench.exclusive(&name)).await else {
            let held: Vec<_> = guards.iter().map(LockGuard::key).collect();
            panic!("{name:?} is taken for one of {held:?}");
        };
        guards.push(guard);
    }
}

pub(crate) async fn odd_names_exclude(bench: Bench) {
    let [ours, theirs] = bench.clients().await;
    for name in odd_names() {
        let request = bench.exclusive(&name);
        let guard = ours.take(&request).await;
        assert_eq!(guard.key().as_str(), name);
        theirs
            .is_refused(&request, "another client holds that very name")
            .await;
        let released = release(guard).await;
        assert_eq!(released, Released::Released, "{name:?}");
        let next = theirs.take(&request).await;
        release(next).await;
    }
}

pub(crate) async fn refused_clients_free_nothing(bench: Bench) {
    let [ours, theirs, third] = bench.clients().await;
    let request = bench.exclusive("kept");
    let guard = ours.take(&request).await;
    for round in 0..20 {
        theirs.is_refused(&request, "another client holds it").await;
        let limited = request.clone().waiting_at_most(Duration::from_millis(2));
        let refused = within(
            bench.prompt(),
            "the end of a short wait",
            theirs.acquire_briefly(limited),
        )
        .await;
        assert_excluded!(
            refused.is_none(),
            "granted although another client holds it"
        );
        let waiting = theirs.acquire(request.clone().with_wait(Wait::Forever));
        let cancelled = poll_times(waiting, round % 4, Duration::from_millis(10)).await;
        assert_excluded!(
            cancelled.is_none(),
            "granted although another client holds it"
        );
        third
            .is_refused(&request, "only refused clients let go of it")
            .await;
    }
    assert!(guard.is_held());
    let released = release(guard).await;
    assert_eq!(released, Released::Released, "a refused client freed it");
}

pub(crate) async fn late_releases_free_nobody_else(bench: Bench) {
    let [ours, theirs, third] = bench.clients().await;
    let request = bench.exclusive("handed over");
    for round in 0..30 {
        let guard = ours.take(&request).await;
        // The release is dropped unpolled, dropped at an await, or left to the background.
        match round % 3 {
            0 => drop(guard.release()),
            1 => drop(poll_times(guard.release(), 1, bench.prompt()).await),
            _ => drop(guard),
        }
        let next = theirs.wait_for(&request).await;
        for _ in 0..3 {
            let why = "only the holder before let go of it";
            third.is_refused(&request, why).await;
            sleep(Duration::from_millis(2)).await;
        }
        let released = release(next).await;
        assert_eq!(released, Released::Released, "a late release freed it");
    }
}

pub(crate) async fn stale_guards_free_nobody_else(bench: Bench) {
    let [ours, theirs, third] = bench.clients().await;
    let key = "overtaken";
    for mode in bench.modes() {
        for explicitly in [true, false] {
            let stale = ours.take(&bench.request(key, mode)).await;
            if !bench.remove(key).await {
                return;
            }
            let request = bench.exclusive(key);
            let guard = theirs.wait_for(&request).await;
            if explicitly {
                let released = release(stale).await;
                assert_eq!(released, Released::AlreadyLost, "{mode:?} had been removed");
            } else {
                drop(stale);
            }
            for _ in 0..5 {
                third
                    .is_refused(&request, "only a stale guard was released")
                    .await;
                sleep(Duration::from_millis(5)).await;
            }
            let released = release(guard).await;
            assert_eq!(
                released,
                Released::Released,
                "a stale {mode:?} guard freed it"
            );
        }
    }
}
