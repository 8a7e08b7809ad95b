//! The wall clock, by which schedules are planned.

use std::time::SystemTime;

#[expect(
    clippy::disallowed_methods,
    reason = "schedules are planned by the wall clock"
)]
pub(crate) fn now() -> SystemTime {
    SystemTime::now()
}
