//! A limit on the requests of a waiter that is woken often.

use std::time::Duration;

use lock_core::backend::{Clock, Moment};

/// Number of wake-ups in a row that are answered at once. A key that passes quickly from process to
/// process wakes its waiters with reason, and a waiter that pauses gets it less often.
const BURST: u32 = 64;

/// Time that restores one wake-up of the burst.
const REFILL: Duration = Duration::from_millis(1);

/// Limits the requests due to useless pushes, such as those of a foreign client that renews its
/// lock.
#[derive(Debug)]
pub(crate) struct WakeRateLimit {
    /// When the whole burst is available again.
    full: Moment,
}

impl WakeRateLimit {
    pub(crate) fn new() -> Self {
        Self {
            full: Clock::Boot.now(),
        }
    }

    /// Waits until the next request is allowed, which is nearly always at once.
    pub(crate) async fn step(&mut self) {
        let now = Clock::Boot.now();
        self.full = self.full.max(now).plus(REFILL);
        if self.full.since(now) > REFILL * BURST {
            tokio::time::sleep(REFILL).await;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_burst_is_free_and_the_rest_is_paced() {
        let mut rate_limit = WakeRateLimit::new();
        let begin = Clock::Boot.now();
        for _ in 0..BURST {
            rate_limit.step().await;
        }
        let burst = Clock::Boot.now();
        for _ in 0..100 {
            rate_limit.step().await;
        }
        let paced = Clock::Boot.now().since(burst);
        assert!(
            paced >= Duration::from_millis(90),
            "{paced:?} after {burst:?}, {begin:?}"
        );
    }
}
