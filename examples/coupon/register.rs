//! The register of answers, with the time that each took.

use hdrhistogram::Histogram;
use indicatif::ProgressBar;
use tokio::time::Instant;

use crate::stage::problem::Problem;

/// Maximum time that the histogram can hold; a longer time counts as this.
const LONGEST_MICROSECONDS: u64 = 3_600_000_000;

/// Counts answers and measures them from the opening on.
pub(crate) struct Register {
    answered: Vec<bool>,
    opened: Option<Instant>,
    last: Option<Instant>,
    microseconds: Histogram<u64>,
    progress: ProgressBar,
}

impl Register {
    /// Creates a register for `submissions` requests; `progress` follows the answers.
    pub(crate) fn new(submissions: usize, progress: ProgressBar) -> Result<Self, Problem> {
        Ok(Self {
            answered: vec![false; submissions],
            opened: None,
            last: None,
            microseconds: Histogram::new_with_max(LONGEST_MICROSECONDS, 3)?,
            progress,
        })
    }

    /// Opens the sale. Further calls, by restarted instances, have no effect.
    pub(crate) fn open(&mut self) {
        self.opened.get_or_insert_with(Instant::now);
    }

    pub(crate) fn is_answered(&self, submission: usize) -> bool {
        self.answered.get(submission).copied().unwrap_or(true)
    }

    pub(crate) fn record(&mut self, submission: usize) {
        let (Some(opened), false) = (self.opened, self.is_answered(submission)) else {
            return;
        };
        self.answered[submission] = true;
        let now = Instant::now();
        self.last = Some(now);
        let microseconds = u64::try_from((now - opened).as_micros()).unwrap_or(u64::MAX);
        self.microseconds.saturating_record(microseconds);
        self.progress.inc(1);
    }

    /// Returns the number of submissions without an answer.
    pub(crate) fn unanswered(&self) -> usize {
        self.answered.iter().filter(|answered| !**answered).count()
    }

    /// Returns answers per second, from the opening to the last answer.
    pub(crate) fn per_second(&self) -> f64 {
        match (self.opened, self.last) {
            // A clock that did not move counts as one microsecond.
            (Some(opened), Some(last)) => {
                self.microseconds.len() as f64 / (last - opened).as_secs_f64().max(1e-6)
            }
            (None, _) | (_, None) => 0.0,
        }
    }

    /// Returns the time within which this share of the buyers had an answer.
    pub(crate) fn milliseconds_at(&self, quantile: f64) -> f64 {
        self.microseconds.value_at_quantile(quantile) as f64 / 1000.0
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[test]
    fn a_submission_counts_once_and_only_after_the_opening() {
        let mut register = Register::new(2, ProgressBar::hidden()).unwrap();
        register.record(0);
        assert_eq!(register.unanswered(), 2, "not open yet");
        register.opened = Some(Instant::now() - Duration::from_secs(2));
        register.record(0);
        register.record(0);
        assert_eq!(register.unanswered(), 1);
        assert!((0.4..=0.5).contains(&register.per_second()));
        assert!(register.milliseconds_at(0.5) >= 1_990.0);
    }
}
