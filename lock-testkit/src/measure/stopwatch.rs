//! The times of an operation that is done often.

use std::time::Duration;

use hdrhistogram::Histogram;

/// A longer time counts as an hour.
const LONGEST: Duration = Duration::from_secs(3600);

/// A histogram of times to the nanosecond, with three digits.
///
/// The [module](crate::measure) has an example. Its high dynamic range keeps rare long times apart
/// from frequent short times.
#[derive(Clone, Debug)]
pub struct Stopwatch(Histogram<u64>);

impl Stopwatch {
    /// Creates a stopwatch without times.
    pub fn new() -> Self {
        let histogram = Histogram::new_with_max(nanoseconds(LONGEST), 3);
        Self(histogram.expect("a histogram from a nanosecond to an hour"))
    }

    /// Notes that the operation took `time` once.
    pub fn note(&mut self, time: Duration) {
        self.0.saturating_record(nanoseconds(time));
    }

    /// Adds the [counts](Self::counts) of another process.
    pub fn add(&mut self, counts: &[(u64, u64)]) {
        for (time, count) in counts {
            self.0.saturating_record_n(*time, *count);
        }
    }

    /// Adds the times that `other` has noted.
    pub fn join(&mut self, other: &Self) {
        // Both range from a nanosecond to an hour.
        let _all_fit = self.0.add(&other.0);
    }

    /// Returns each time in nanoseconds, with the number of times that it was noted.
    pub fn counts(&self) -> Vec<(u64, u64)> {
        let recorded = self.0.iter_recorded();
        recorded
            .map(|one| (one.value_iterated_to(), one.count_at_value()))
            .collect()
    }

    /// Returns the number of noted times.
    pub fn count(&self) -> u64 {
        self.0.len()
    }

    /// Returns the time that the share `quantile` of all times does not exceed; zero without any.
    ///
    /// The median has the quantile 0.5.
    pub fn quantile(&self, quantile: f64) -> Duration {
        Duration::from_nanos(self.0.value_at_quantile(quantile))
    }

    /// Returns the longest time; zero without any.
    pub fn longest(&self) -> Duration {
        Duration::from_nanos(self.0.max())
    }
}

impl Default for Stopwatch {
    fn default() -> Self {
        Self::new()
    }
}

fn nanoseconds(time: Duration) -> u64 {
    u64::try_from(time.as_nanos()).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_several_have_noted_is_put_together() {
        let [mut one, mut other, mut third] = [(); 3].map(|()| Stopwatch::new());
        for milliseconds in 1..=98 {
            one.note(Duration::from_millis(milliseconds));
        }
        other.note(Duration::from_millis(500));
        third.note(Duration::from_millis(99));
        one.add(&other.counts());
        one.join(&third);
        assert_eq!(one.count(), 100);
        let near = |time: Duration, milliseconds: u128| {
            time.as_micros().abs_diff(milliseconds * 1000) <= milliseconds
        };
        assert!(near(one.quantile(0.5), 50), "{:?}", one.quantile(0.5));
        assert!(near(one.longest(), 500), "{:?}", one.longest());
    }

    #[test]
    fn what_takes_for_ever_counts_as_an_hour() {
        let mut stopwatch = Stopwatch::new();
        stopwatch.note(Duration::MAX);
        assert!(stopwatch.longest() >= LONGEST && stopwatch.longest() < LONGEST * 2);
    }
}
