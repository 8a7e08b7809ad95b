//! Pauses between attempts.

use std::time::Duration;

/// Growing, jittered pauses for waiting on a store that cannot push, and between failures.
///
/// Each pause is drawn evenly between half the current limit and the limit, which doubles up to a
/// ceiling; so clients that started together drift apart.
#[derive(Clone, Debug)]
pub struct Backoff {
    limit: Duration,
    ceiling: Duration,
}

impl Backoff {
    /// Pauses from `first` up to `ceiling`.
    pub fn new(first: Duration, ceiling: Duration) -> Self {
        Self {
            limit: first.min(ceiling),
            ceiling,
        }
    }

    /// The next pause.
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
