//! The clock that all processes of a machine share.

use std::time::Duration;

use rustix::time::{ClockId, clock_gettime};

/// Returns nanoseconds since a fixed moment, the same in all processes: `CLOCK_MONOTONIC`.
pub(crate) fn now() -> u64 {
    read(ClockId::Monotonic)
}

/// Returns the processor time that this process has used.
pub(crate) fn processor_time() -> Duration {
    Duration::from_nanos(read(ClockId::ProcessCPUTime))
}

/// Returns the time from `earlier` to `later`; zero if `later` is the earlier moment.
pub(crate) fn between(earlier: u64, later: u64) -> Duration {
    Duration::from_nanos(later.saturating_sub(earlier))
}

fn read(clock: ClockId) -> u64 {
    let time = clock_gettime(clock);
    // Neither clock is ever negative.
    let (seconds, nanoseconds) = (time.tv_sec.unsigned_abs(), time.tv_nsec.unsigned_abs());
    seconds * 1_000_000_000 + nanoseconds
}
