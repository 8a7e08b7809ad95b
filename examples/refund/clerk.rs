//! The record of answers and payments, with their times.

use hdrhistogram::Histogram;
use indicatif::ProgressBar;
use tokio::time::Instant;

use crate::refund::protocol::Answer;
use crate::stage::problem::Problem;

/// Maximum time that the histogram can hold; a longer time counts as this.
const LONGEST_MICROSECONDS: u64 = 3_600_000_000;

/// Records answers and payments.
#[derive(Debug)]
pub(crate) struct Clerk {
    opened: Option<Instant>,
    arrived: Vec<Option<Instant>>,
    answered: Vec<Option<Answer>>,
    finished: Option<Instant>,
    answers: Histogram<u64>,
    progress: ProgressBar,
}

impl Clerk {
    /// Creates a record for `arrivals` requests; `progress` follows the finished refunds.
    pub(crate) fn new(arrivals: usize, progress: ProgressBar) -> Result<Self, Problem> {
        Ok(Self {
            opened: None,
            arrived: vec![None; arrivals],
            answered: vec![None; arrivals],
            finished: None,
            answers: Histogram::new_with_max(LONGEST_MICROSECONDS, 3)?,
            progress,
        })
    }

    /// Starts the clock of the arrivals. Further calls, by restarted peers, have no effect.
    pub(crate) fn open(&mut self) {
        self.opened.get_or_insert_with(Instant::now);
    }

    pub(crate) fn opened(&self) -> Option<Instant> {
        self.opened
    }

    pub(crate) fn arrive(&mut self, arrival: usize) {
        self.arrived[arrival] = Some(Instant::now());
    }

    pub(crate) fn has_arrived(&self, arrival: usize) -> bool {
        self.arrived[arrival].is_some()
    }

    pub(crate) fn answer(&mut self, arrival: usize, answer: Answer) {
        self.answered[arrival] = Some(answer);
        if let Some(arrived) = self.arrived[arrival] {
            let microseconds = arrived.elapsed().as_micros();
            let microseconds = u64::try_from(microseconds).unwrap_or(u64::MAX);
            self.answers.saturating_record(microseconds);
        }
    }

    pub(crate) fn finish(&mut self) {
        self.finished = Some(Instant::now());
        self.progress.inc(1);
    }

    /// Returns the number of requests with this answer.
    pub(crate) fn answered(&self, answer: Answer) -> usize {
        let same = |one: &&Option<Answer>| **one == Some(answer);
        self.answered.iter().filter(same).count()
    }

    /// Returns refunds per second, from the opening until the last refund was finished.
    pub(crate) fn per_second(&self, refunds: usize) -> f64 {
        match (self.opened, self.finished) {
            (Some(opened), Some(finished)) => refunds as f64 / (finished - opened).as_secs_f64(),
            (None, _) | (_, None) => 0.0,
        }
    }

    /// Returns the time within which this share of the requests had an answer.
    pub(crate) fn milliseconds_at(&self, quantile: f64) -> f64 {
        self.answers.value_at_quantile(quantile) as f64 / 1000.0
    }
}
