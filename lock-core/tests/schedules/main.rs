//! The core in hundreds of schedules per test. Each schedule has its own order of tasks, delays and
//! faults.
//!
//! A schedule runs on one thread, in an order that a seed determines, on clocks that the test
//! moves. A failure prints its seed and its last events. `LOCK_TESTKIT_SEED=... cargo test -p
//! lock-core --test schedules` begins with that seed. `LOCK_SCHEDULES` is the number of schedules
//! per test. Default: 500.
//!
//! Each process has its own runtime ([`process`]), and the world runs one step of one process at a
//! time ([`world`]). The store is the memory backend's ([`memory`]), or a server behind a network
//! that delays, drops, cuts and delivers late ([`simulated`]). The latter has a client like that of
//! a real store ([`client`]). The [`observer`] compares the state of the guards with the state of
//! the store.
//!
//! The schedules vary the order of polls, not that of the instructions of two threads. Tests on
//! real servers do that. The seed does not determine owner ids, nor the branch that `select!` polls
//! first. A test checks that neither makes a difference.

mod actor;
mod book;
mod client;
mod clock;
mod ground;
mod kept;
mod layers;
mod memory;
mod network;
mod observer;
mod process;
mod removals;
mod seeds;
mod server;
mod simulated;
mod world;

use std::sync::{Mutex, MutexGuard, PoisonError};

use crate::seeds::try_schedules;
use crate::simulated::Simulated;

#[test]
fn nothing_is_lost_and_nothing_is_left_while_nothing_goes_wrong() {
    try_schedules(|seed| {
        Simulated::calm(seed).run();
    });
}

#[test]
fn nobody_is_deceived_whatever_goes_wrong() {
    try_schedules(|seed| {
        Simulated::rough(seed).run();
    });
}

#[test]
fn leaders_sets_and_owners_deceive_nobody() {
    try_schedules(|seed| {
        Simulated::with_layers(seed).run();
    });
}

#[test]
fn the_queue_in_memory_serves_in_order_and_forgets_nobody() {
    try_schedules(|seed| {
        memory::run(seed);
    });
}

#[test]
fn a_seed_repeats_its_schedule() {
    for seed in 0..20 {
        assert_eq!(Simulated::rough(seed).run(), Simulated::rough(seed).run());
        assert_eq!(memory::run(seed), memory::run(seed));
    }
}

/// Locks `mutex`, also while a failed schedule drops its values during a panic.
fn held<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
