//! Number and seeds of the schedules, and how to repeat a schedule.

use std::panic::{AssertUnwindSafe, catch_unwind};

/// Environment variable with the first seed. Default: random.
const SEED: &str = "LOCK_TESTKIT_SEED";

/// Environment variable with the number of schedules per test.
const SCHEDULES: &str = "LOCK_SCHEDULES";

const SCHEDULES_DEFAULT: u64 = 500;

/// Runs `schedule` with consecutive seeds.
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
