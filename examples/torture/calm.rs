//! Calm periods without faults, which show whether the workers recover.

use std::time::Duration;

use tokio::time::{Instant, sleep_until};

/// Durations of a period with faults, and of the calm after it.
const TROUBLE: Duration = Duration::from_secs(14);
const CALM: Duration = Duration::from_secs(6);

/// The times of a run.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Times {
    began: Instant,
    end: Instant,
}

impl Times {
    pub(crate) fn new(lasting: Duration) -> Self {
        let began = Instant::now();
        let end = began + lasting;
        Self { began, end }
    }

    /// Returns the end of the last period.
    pub(crate) fn end(&self) -> Instant {
        self.end
    }

    /// Waits until a fault of this length fits into the period; returns false if none fits any
    /// more.
    pub(crate) async fn time_for(&self, fault: Duration) -> bool {
        let now = Instant::now();
        let turn = TROUBLE + CALM;
        let turns = now.duration_since(self.began).as_nanos() / turn.as_nanos();
        let begin = self.began + turn * u32::try_from(turns).unwrap_or(u32::MAX);
        if now + fault > begin + TROUBLE {
            sleep_until((begin + turn).min(self.end)).await;
        }
        Instant::now() + fault < self.end
    }
}
