//! Separation of cases with a crowd of requests from cases that measure short times.

use std::sync::{PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard};

use crate::case::Case;

/// The cases that send a crowd of requests at once, which delays other answers of a server.
const CROWDS: [&str; 3] = [
    "a_crowd_is_served_or_told_busy",
    "a_thousand_cancelled_acquisitions_leave_nothing",
    "a_thousand_holds_are_shut_down_together",
];

/// The cases that fail when a server answers late by less than a second.
const MEASURED: [&str; 2] = ["a_limited_wait_ends_in_time", "no_wait_answers_at_once"];

static MACHINE: RwLock<()> = RwLock::new(());

/// The permission to run a case. Dropping it ends the permission.
pub(crate) enum Permission {
    #[expect(dead_code, reason = "held until it is dropped")]
    Crowd(RwLockWriteGuard<'static, ()>),
    #[expect(dead_code, reason = "held until it is dropped")]
    Measured(RwLockReadGuard<'static, ()>),
    Other,
}

/// Waits until `case` may run beside the cases of this process that run now.
pub(crate) fn permission(case: Case) -> Permission {
    if CROWDS.contains(&case.name) {
        Permission::Crowd(MACHINE.write().unwrap_or_else(PoisonError::into_inner))
    } else if MEASURED.contains(&case.name) {
        Permission::Measured(MACHINE.read().unwrap_or_else(PoisonError::into_inner))
    } else {
        Permission::Other
    }
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc;
    use std::thread;
    use std::time::Duration;

    use super::*;

    fn case(name: &str) -> Case {
        let mut cases = crate::cases().into_iter();
        cases.find(|case| case.name == name).expect("it exists")
    }

    #[test]
    fn a_measured_case_waits_for_a_crowd() {
        let crowd = permission(case(CROWDS[0]));
        let (begun, measured) = mpsc::channel();
        let measuring = thread::spawn(move || {
            let _permission = permission(case(MEASURED[0]));
            begun.send(()).expect("the test waits");
        });
        let _other = permission(case("holds_are_seen"));
        let early = measured.recv_timeout(Duration::from_millis(50));
        assert!(early.is_err(), "it runs beside a crowd");
        drop(crowd);
        measured.recv().expect("the crowd is over");
        measuring.join().expect("no panic");
    }

    #[test]
    fn cases_of_these_names_exist() {
        for name in CROWDS.into_iter().chain(MEASURED) {
            let is_there = crate::cases().iter().any(|case| case.name == name);
            assert!(is_there, "{name}");
        }
    }
}
