//! Tests that a case that fails during a standstill runs again, unless exclusion failed.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::process::Command;
use std::sync::atomic::{AtomicU32, Ordering};

use lock_core::MemoryLock;
use lock_testkit::{Case, Outcome, assert_excluded, cases, run, steady};

use tokio::runtime::Handle;

use crate::client::everything;
use crate::fault::Fault;
use crate::store::Shelf;

/// Stops this process for 400 ms, as a busy host stops a virtual machine.
fn stand_still() {
    let stopping = ["-c", "kill -STOP $PPID; sleep 0.4; kill -CONT $PPID"];
    let stopped = Command::new("sh").args(stopping).status();
    assert!(stopped.expect("sh is on the path").success());
}

fn named(name: &str) -> Case {
    let named = |case: &Case| case.to_string() == name;
    cases().into_iter().find(named).expect("it is in the kit")
}

const ABOUT_TIME: &str = "waiting::a_limited_wait_ends_in_time";

#[test]
fn a_case_that_fails_while_the_machine_stands_still_is_run_again() {
    let runs = AtomicU32::new(0);
    let outcome = run(named(ABOUT_TIME), async |_| {
        if runs.fetch_add(1, Ordering::SeqCst) > 0 {
            return Shelf::new(Fault::Nothing, everything());
        }
        stand_still();
        Shelf::new(Fault::WaitsTooLong, everything())
    });
    assert_eq!(outcome, Outcome::Proved);
    assert_eq!(runs.into_inner(), 2);
}

#[test]
fn a_machine_that_keeps_standing_still_excuses_nothing() {
    let runs = AtomicU32::new(0);
    let new_store = async |_| {
        runs.fetch_add(1, Ordering::SeqCst);
        stand_still();
        Shelf::new(Fault::WaitsTooLong, everything())
    };
    let outcome = catch_unwind(AssertUnwindSafe(|| run(named(ABOUT_TIME), new_store)));
    assert!(outcome.is_err(), "{outcome:?}");
    assert_eq!(runs.into_inner(), 3);
}

#[test]
fn who_is_let_in_while_the_machine_stands_still_is_let_in() {
    let runs = AtomicU32::new(0);
    let new_store = async |_| {
        runs.fetch_add(1, Ordering::SeqCst);
        stand_still();
        Shelf::new(Fault::GrantsEverything, everything())
    };
    let case = named("exclusion::a_held_lock_is_refused");
    let outcome = catch_unwind(AssertUnwindSafe(|| run(case, new_store)));
    assert!(outcome.is_err(), "{outcome:?}");
    assert_eq!(runs.into_inner(), 1);
}

/// Returns the number of runs of a test that fails on its first run, while the process is stopped.
fn runs_of_a_test_that_fails_once(failure: impl AsyncFn()) -> u32 {
    let runs = AtomicU32::new(0);
    let test = async || {
        if runs.fetch_add(1, Ordering::SeqCst) == 0 {
            stand_still();
            failure().await;
        }
    };
    let _failure = catch_unwind(AssertUnwindSafe(|| steady(test)));
    runs.into_inner()
}

#[test]
fn a_test_that_fails_while_the_machine_stands_still_is_run_again() {
    assert_eq!(runs_of_a_test_that_fails_once(async || panic!("late")), 2);
}

#[test]
fn two_holders_while_the_machine_stands_still_are_two_holders() {
    let first = MemoryLock::new();
    let told = async || assert_excluded!(first.claims().len() == 1, "{first:?} is not held");
    assert_eq!(runs_of_a_test_that_fails_once(told), 1);
}

#[test]
fn two_holders_in_a_task_are_two_holders_whatever_its_parent_says() {
    let in_a_task = async || {
        let task = Handle::current().spawn(async { assert_excluded!(1 == 2) });
        assert!(task.await.is_ok(), "the task has failed");
    };
    assert_eq!(runs_of_a_test_that_fails_once(in_a_task), 1);
    let blocking = async || {
        let task = tokio::task::spawn_blocking(|| assert_excluded!(1 == 2));
        assert!(task.await.is_ok(), "the task has failed");
    };
    assert_eq!(runs_of_a_test_that_fails_once(blocking), 1);
}
