//! The check that a case fails for a fault.

use std::collections::BTreeSet;
use std::panic::{AssertUnwindSafe, catch_unwind};

use lock_core::Capabilities;
use lock_testkit::{Case, cases, run};

use crate::client::{everything, modest};
use crate::fault::Fault;
use crate::store::Shelf;
use crate::{bites, bites_elsewhere};

/// Cases about the core's own work, for which a backend can have no fault.
const NOT_UP_TO_BACKENDS: [&str; 2] = [
    "lease::a_watch_hears_of_the_release",
    "fencing::tokens_are_decimal_text",
];

/// The maximum number of runs until a case notices a fault.
///
/// A case with a random schedule notices some faults only when two clients meet by chance.
const ATTEMPTS: u32 = 5;

#[test]
fn every_case_catches_something() {
    let caught = [bites::CAUGHT, bites_elsewhere::CAUGHT].concat();
    let caught: BTreeSet<&str> = caught.into_iter().chain(NOT_UP_TO_BACKENDS).collect();
    let names: Vec<String> = cases().iter().map(Case::to_string).collect();
    let unproved: Vec<_> = names
        .iter()
        .filter(|name| !caught.contains(&***name))
        .collect();
    assert!(
        unproved.is_empty(),
        "no fault shows that these bite: {unproved:?}"
    );
}

pub(crate) fn assert_caught(fault: Fault, name: &str, says: &str) {
    let named = |case: &Case| case.to_string() == name;
    let case = cases()
        .into_iter()
        .find(named)
        .expect("a case of that name");
    let new_store = |_case| async move { Shelf::new(fault, declared(fault)) };
    let attempt = |_| catch_unwind(AssertUnwindSafe(|| run(case, new_store))).err();
    let Some(panic) = (0..ATTEMPTS).find_map(attempt) else {
        panic!("{name} does not notice {fault:?} in {ATTEMPTS} attempts");
    };
    let message = panic.downcast_ref::<String>().expect("a message");
    assert!(
        message.contains(name) && message.contains(says),
        "{fault:?} is to fail with {says:?}, not: {message}"
    );
    assert!(
        message.contains("LOCK_TESTKIT_SEED="),
        "it can be repeated: {message}"
    );
}

fn declared(fault: Fault) -> Capabilities {
    match fault {
        Fault::EmulatesModes | Fault::UndeclaredIsBusy => modest(),
        _ => everything(),
    }
}
