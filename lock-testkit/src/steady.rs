//! Tests that run again if they fail during a stall of the machine.

use std::any::Any;
use std::io::Write;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::thread;
use std::time::Duration;

use lock_core::backend::Clock;

use crate::excluded::Attempt;
use crate::stalls;

/// Maximum number of runs of a test.
const RUNS: u32 = 3;

/// Runs a test against a real server, on a new runtime with a worker for each core.
///
/// Virtual machines stall while their host is busy, and threads wait on busy machines. If a test
/// fails and no thread of this process ran for 100 ms or more, it may only have been late. So may a
/// server, if no write reached the disk of its data for 300 ms or more. The test then runs again,
/// up to three times in all. Each repetition is printed past the capture of the test harness.
///
/// A failure of [`assert_excluded!`](crate::assert_excluded) is never repeated.
///
/// # Panics
///
/// If the last run of the test panics.
///
/// # Examples
///
/// ```
/// # use lock_core::{DistributedLockExt, MemoryLock};
/// lock_testkit::steady(async || {
///     let locks = MemoryLock::new();
///     let guard = locks.try_lock("k").await.unwrap();
///     assert!(guard.is_some());
/// });
/// ```
pub fn steady(test: impl AsyncFn()) {
    let test = &test;
    let attempt = || {
        let runtime = tokio::runtime::Builder::new_multi_thread()
            .enable_all()
            .build()
            .expect("a runtime for the test");
        let attempt = Attempt::on(&runtime);
        let outcome = catch_unwind(AssertUnwindSafe(move || runtime.block_on(test())));
        (outcome, attempt)
    };
    let current = thread::current();
    let name = current.name().unwrap_or("a test");
    if let Err(panic) = run_again_after_stalls(name, attempt, |panic| message(panic.as_ref())) {
        resume_unwind(panic);
    }
}

/// Calls `attempt` up to three times, as long as it fails during stalls; returns the last outcome.
///
/// Prints `name` and the `reason` of a failure before each repetition.
pub(crate) fn run_again_after_stalls<T, E>(
    name: &str,
    mut attempt: impl FnMut() -> (Result<T, E>, Attempt),
    reason: impl Fn(&E) -> &str,
) -> Result<T, E> {
    stalls::watch();
    let mut runs = 1;
    loop {
        let began = Clock::Boot.now();
        let (failure, attempt) = match attempt() {
            (Ok(value), _) => return Ok(value),
            (Err(failure), attempt) => (failure, attempt),
        };
        match stalls::longest_since(began) {
            Some(stall) if runs < RUNS && !attempt.saw_two_holders() => {
                announce(name, stall, reason(&failure));
            }
            _ => return Err(failure),
        }
        runs += 1;
    }
}

/// Prints past the capture of the test harness, which hides the output of tests that pass.
fn announce(name: &str, stall: Duration, reason: &str) {
    let _unprinted = writeln!(
        std::io::stderr(),
        "{name} is run again, since the machine or its disk stood still for {stall:?} when it failed: {reason}"
    );
}

/// Returns the message of a panic.
pub(crate) fn message(panic: &(dyn Any + Send)) -> &str {
    match (panic.downcast_ref::<String>(), panic.downcast_ref::<&str>()) {
        (Some(message), _) => message,
        (None, Some(message)) => message,
        (None, None) => "it panicked",
    }
}
