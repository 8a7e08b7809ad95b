//! The one reader of time.

use std::time::Duration;

/// Tokio's timers stand still while the machine is suspended: made of naps, a sleep on
/// [`Clock::Boot`] is late by no more than one of them.
const NAP_MAX: Duration = Duration::from_millis(250);

/// Which clock the deadlines of a backend's holds are read on.
///
/// The wall clock is neither: setting it changes nothing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Clock {
    /// Tokio's clock. A test that pauses it can expire a lease in no time. For backends without
    /// I/O.
    Runtime,
    /// A monotonic clock that also runs while the machine is suspended (`CLOCK_BOOTTIME` on
    /// Linux, elsewhere the operating system's monotonic clock). For backends with I/O: their
    /// server's clock goes on, too.
    Boot,
}

/// A point in time on a [`Clock`]; only moments of the same clock can be compared.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Moment {
    /// Signed, because tokio's paused clock may stand before the origin that was taken first.
    nanoseconds: i64,
}

impl Clock {
    /// The present moment.
    pub fn now(self) -> Moment {
        match self {
            Self::Runtime => runtime_now(),
            Self::Boot => boot_now(),
        }
    }

    /// Waits until `moment` has come, on the timer of the current runtime.
    ///
    /// # Cancel safety
    ///
    /// Cancel safe: it only waits.
    pub async fn sleep_until(self, moment: Moment) {
        loop {
            let left = moment.since(self.now());
            if left.is_zero() {
                return;
            }
            // The timer's clock and ours need not agree, so it may fire early.
            tokio::time::sleep(match self {
                Self::Runtime => left,
                Self::Boot => left.min(NAP_MAX),
            })
            .await;
        }
    }
}

impl Moment {
    /// The moment `duration` later; the last one there is where that is out of range.
    #[must_use]
    pub fn plus(self, duration: Duration) -> Self {
        let nanoseconds = i64::try_from(duration.as_nanos()).unwrap_or(i64::MAX);
        Self {
            nanoseconds: self.nanoseconds.saturating_add(nanoseconds),
        }
    }

    /// Returns how many nanoseconds after the origin of its clock this is.
    ///
    /// On Linux the origin of [`Clock::Boot`] is the start of the machine, so that what processes
    /// of one machine write down can be compared. Every other origin belongs to this process.
    pub fn nanoseconds(self) -> i64 {
        self.nanoseconds
    }

    /// Returns how long after `earlier` this is; zero if it is not after it.
    pub fn since(self, earlier: Self) -> Duration {
        let nanoseconds = self.nanoseconds.saturating_sub(earlier.nanoseconds);
        Duration::from_nanos(u64::try_from(nanoseconds).unwrap_or(0))
    }
}

fn runtime_now() -> Moment {
    use std::sync::OnceLock;
    use tokio::time::Instant;

    static ORIGIN: OnceLock<Instant> = OnceLock::new();
    let now = Instant::now();
    let origin = *ORIGIN.get_or_init(|| now);
    let distance = |later: Instant, earlier: Instant| {
        i64::try_from((later - earlier).as_nanos()).unwrap_or(i64::MAX)
    };
    let nanoseconds = if now >= origin {
        distance(now, origin)
    } else {
        -distance(origin, now)
    };
    Moment { nanoseconds }
}

#[cfg(target_os = "linux")]
fn boot_now() -> Moment {
    use rustix::time::{ClockId, clock_gettime};

    let time = clock_gettime(ClockId::Boottime);
    Moment {
        nanoseconds: time.tv_sec * 1_000_000_000 + time.tv_nsec,
    }
}

#[cfg(not(target_os = "linux"))]
fn boot_now() -> Moment {
    use std::sync::OnceLock;
    use std::time::Instant;

    static ORIGIN: OnceLock<Instant> = OnceLock::new();
    #[expect(clippy::disallowed_methods, reason = "this is the one reader of time")]
    let now = Instant::now();
    let since_origin = now - *ORIGIN.get_or_init(|| now);
    Moment {
        nanoseconds: i64::try_from(since_origin.as_nanos()).unwrap_or(i64::MAX),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn runtime_clock_follows_paused_time_and_boot_clock_does_not() {
        let (runtime, boot) = (Clock::Runtime.now(), Clock::Boot.now());
        tokio::time::advance(Duration::from_secs(3600)).await;
        assert_eq!(
            Clock::Runtime.now().since(runtime),
            Duration::from_secs(3600)
        );
        assert!(Clock::Boot.now().since(boot) < Duration::from_secs(3600));
    }

    #[test]
    fn arithmetic_saturates() {
        let now = Clock::Boot.now();
        let end = now.plus(Duration::MAX);
        assert_eq!(end, end.plus(Duration::from_secs(1)));
        assert_eq!(now.since(end), Duration::ZERO);
    }
}
