//! The only reader of the clocks of holds. Waits and budgets use tokio's clock.

use std::time::Duration;

/// Longest single sleep on [`Clock::Boot`]. Tokio's timers stop while the machine is suspended, so
/// a deadline that passes during a suspend is noticed at most this much late.
const NAP_MAX: Duration = Duration::from_millis(250);

/// The clock on which a backend's deadlines are read.
///
/// Neither variant is the wall clock, so setting the wall clock changes nothing.
///
/// ```
/// use std::time::Duration;
/// use lock_core::backend::Clock;
///
/// let sent = Clock::Boot.now();
/// let deadline = sent.plus(Duration::from_secs(30));
/// assert_eq!(deadline.since(sent), Duration::from_secs(30));
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Clock {
    /// Tokio's clock, for backends without I/O. A test that pauses this clock can expire a lease at
    /// once.
    Runtime,
    /// A monotonic clock that also runs while the machine is suspended. For backends with I/O,
    /// since their server's clock runs on, too. `CLOCK_BOOTTIME` on Linux, elsewhere the operating
    /// system's monotonic clock.
    Boot,
}

/// A point in time on a [`Clock`]; compare only moments of the same clock.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Moment {
    /// Signed, because tokio's paused clock may be earlier than the origin.
    nanoseconds: i64,
}

impl Clock {
    /// Returns the present moment.
    pub fn now(self) -> Moment {
        match self {
            Self::Runtime => runtime_now(),
            Self::Boot => boot_now(),
        }
    }

    /// Waits until `moment`, on the timer of the current runtime.
    ///
    /// # Cancel safety
    ///
    /// Cancel safe: the future has no side effects.
    pub async fn sleep_until(self, moment: Moment) {
        loop {
            let left = moment.since(self.now());
            if left.is_zero() {
                return;
            }
            // The timer's clock may differ from this clock, so the timer may fire early.
            tokio::time::sleep(match self {
                Self::Runtime => left,
                Self::Boot => left.min(NAP_MAX),
            })
            .await;
        }
    }
}

impl Moment {
    /// Returns the moment `duration` later, saturating at the last representable one.
    #[must_use]
    pub fn plus(self, duration: Duration) -> Self {
        let nanoseconds = i64::try_from(duration.as_nanos()).unwrap_or(i64::MAX);
        Self {
            nanoseconds: self.nanoseconds.saturating_add(nanoseconds),
        }
    }

    /// Returns the number of nanoseconds since the origin of this clock.
    ///
    /// On Linux the origin of [`Clock::Boot`] is the start of the machine, so processes of one
    /// machine can compare these numbers. Every other origin belongs to this process.
    pub fn nanoseconds(self) -> i64 {
        self.nanoseconds
    }

    /// Returns the time from `earlier` to this moment; zero if `earlier` is later.
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
