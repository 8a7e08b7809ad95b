//! The core in hundreds of schedules a test: the same tasks in other orders each time, with other delays and other
//! accidents.
//!
//! Everything here happens on one thread, in an order that a seed draws, on clocks that stand still until they are
//! moved. What fails says its seed and tells its last events, and `LOCK_TESTKIT_SEED=... cargo test -p lock-core
//! --test schedules` begins with it. `LOCK_SCHEDULES` is how many schedules each test tries (500).
//!
//! A process is a runtime of its own ([`process`]), and the world lets one of them do one thing at a time
//! ([`world`]). The store is that of the memory backend ([`memory`]), or a server behind a network that delays,
//! swallows, cuts and delivers late ([`simulated`]), with a client as one of a real store would be ([`client`]).
//! The [`observer`] compares what the processes are told with what is so.
//!
//! Orders are tried between polls, not between the instructions of two threads: those are for the tests on real
//! servers. Two things are not drawn from the seed, owner ids and the arm that `select!` polls first; that neither
//! makes a difference is tested, too.

mod actor;
mod book;
mod client;
mod clock;
mod ground;
mod memory;
mod network;
mod observer;
mod process;
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

/// A schedule that fails drops what it has while it panics.
fn held<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
