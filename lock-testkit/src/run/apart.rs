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
pub(crate) enum Turn {
    #[expect(dead_code, reason = "held until it is dropped")]
    Crowd(RwLockWriteGuard<'static, ()>),
    #[expect(dead_code, reason = "held until it is dropped")]
    Measured(RwLockReadGuard<'static, ()>),
    Other,
}

/// Waits until `case` may run beside the cases of this process that run now.
pub(crate) fn turn(case: Case) -> Turn {
    if CROWDS.contains(&case.name) {
        Turn::Crowd(MACHINE.write().unwrap_or_else(PoisonError::into_inner))
    } else if MEASURED.contains(&case.name) {
        Turn::Measured(MACHINE.read().unwrap_or_else(PoisonError::into_inner))
    } else {
        Turn::Other
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cases_of_these_names_exist() {
        for name in CROWDS.into_iter().chain(MEASURED) {
            let is_there = crate::cases().iter().any(|case| case.name == name);
            assert!(is_there, "{name}");
        }
    }
}
