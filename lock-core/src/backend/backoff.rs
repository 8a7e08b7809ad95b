//! Pauses between attempts.

use std::time::Duration;

/// Growing, jittered pauses between requests to a store.
///
/// Each pause is random between half the current limit and the limit, which doubles up to a
/// ceiling. So clients that started together drift apart.
///
/// ```
/// use std::time::Duration;
/// use lock_core::backend::Backoff;
///
/// let mut backoff = Backoff::new(Duration::from_millis(5), Duration::from_secs(1));
/// assert!(backoff.next_pause() <= Duration::from_millis(5));
/// assert!(backoff.next_pause() <= Duration::from_millis(10));
/// ```
#[derive(Clone, Debug)]
pub struct Backoff {
    limit: Duration,
    ceiling: Duration,
}

impl Backoff {
    /// Creates pauses from `first` up to `ceiling`.
    pub fn new(first: Duration, ceiling: Duration) -> Self {
        Self {
            limit: first.min(ceiling),
            ceiling,
        }
    }

    /// Returns the next pause.
    pub fn next_pause(&mut self) -> Duration {
        let pause = self.limit.mul_f64(0.5 + 0.5 * fastrand::f64());
        self.limit = (self.limit * 2).min(self.ceiling);
        pause
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pauses_grow_to_the_ceiling_and_stay_in_range() {
        let (first, ceiling) = (Duration::from_millis(4), Duration::from_millis(20));
        let mut backoff = Backoff::new(first, ceiling);
        for limit in [4, 8, 16, 20, 20].map(Duration::from_millis) {
            let pause = backoff.next_pause();
            assert!(
                limit / 2 <= pause && pause <= limit,
                "{pause:?} of {limit:?}"
            );
        }
    }
}
