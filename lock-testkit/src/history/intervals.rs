//! Intervals of time, and how much time they cover.

use std::time::Duration;

/// Intervals that do not overlap, in order.
#[derive(Debug, Default)]
pub(super) struct Intervals {
    list: Vec<(u64, u64)>,
    /// For each interval, the time that all earlier intervals cover.
    before: Vec<u64>,
}

impl Intervals {
    /// Creates the union of some intervals.
    pub(super) fn of(stretches: impl IntoIterator<Item = (u64, u64)>) -> Self {
        let mut all: Vec<(u64, u64)> = stretches.into_iter().collect();
        all.sort_unstable();
        let mut list: Vec<(u64, u64)> = Vec::new();
        for (begin, end) in all {
            match list.last_mut() {
                Some(last) if begin <= last.1 => last.1 = last.1.max(end),
                _ => list.push((begin, end.max(begin))),
            }
        }
        let mut sum = 0;
        let cumulate = |(begin, end): &(u64, u64)| {
            let before = sum;
            sum += end - begin;
            before
        };
        let before = list.iter().map(cumulate).collect();
        Self { list, before }
    }

    /// Returns how much of the time from `begin` to `end` the intervals cover.
    pub(super) fn within(&self, begin: u64, end: u64) -> u64 {
        self.until(end).saturating_sub(self.until(begin))
    }

    /// Returns true if an interval has a moment from `begin` to `end`.
    pub(super) fn touches(&self, begin: u64, end: u64) -> bool {
        let first = self.list.partition_point(|stretch| stretch.1 < begin);
        self.list.get(first).is_some_and(|stretch| stretch.0 <= end)
    }

    /// Returns how much time the intervals cover before `moment`.
    fn until(&self, moment: u64) -> u64 {
        let begun = self.list.partition_point(|stretch| stretch.0 < moment);
        let Some(last) = begun.checked_sub(1) else {
            return 0;
        };
        let (begin, end) = self.list[last];
        self.before[last] + moment.min(end) - begin
    }
}

/// Returns a duration in the unit of the history's clock.
pub(super) fn nanoseconds(duration: Duration) -> u64 {
    u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX)
}

/// Formats nanoseconds for a message.
pub(super) fn milliseconds(nanoseconds: u64) -> String {
    format!("{:.1} ms", nanoseconds as f64 / 1e6)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_overlaps_counts_once() {
        let stretches = Intervals::of([(40, 50), (10, 20), (15, 30)]);
        assert_eq!(stretches.within(0, 100), 30);
        assert_eq!(stretches.within(12, 45), 18 + 5);
        assert_eq!(stretches.within(30, 40), 0);
        assert_eq!(Intervals::default().within(0, 100), 0);
    }

    #[test]
    fn ends_belong_to_a_stretch() {
        let stretches = Intervals::of([(10, 20)]);
        assert!(stretches.touches(20, 30) && stretches.touches(0, 10) && stretches.touches(12, 13));
        assert!(!stretches.touches(21, 30) && !stretches.touches(0, 9));
    }
}
