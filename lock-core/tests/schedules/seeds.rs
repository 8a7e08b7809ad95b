//! How many schedules are tried, which, and how one of them is repeated.

use std::panic::{AssertUnwindSafe, catch_unwind};

/// The environment variable that says with which seed to begin; a new one each time without it.
const SEED: &str = "LOCK_TESTKIT_SEED";

/// The environment variable that says how many schedules each test tries.
const SCHEDULES: &str = "LOCK_SCHEDULES";

const SCHEDULES_DEFAULT: u64 = 500;

/// Runs `schedule` with one seed after the other.
///
/// # Panics
///
/// With the seed of the first schedule that panics.
pub(crate) fn try_schedules(schedule: impl Fn(u64)) {
    let first = number(SEED).unwrap_or_else(|| fastrand::u64(..));
    for count in 0..number(SCHEDULES).unwrap_or(SCHEDULES_DEFAULT) {
        let seed = first.wrapping_add(count);
        if catch_unwind(AssertUnwindSafe(|| schedule(seed))).is_err() {
            panic!("schedule {count} fails: {SEED}={seed} begins with it");
        }
    }
}

fn number(variable: &str) -> Option<u64> {
    let text = std::env::var(variable).ok()?;
    let number = text.parse();
    Some(number.unwrap_or_else(|_| panic!("{variable}={text} is not a number")))
}
