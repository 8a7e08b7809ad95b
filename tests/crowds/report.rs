//! The measurements of a crowd, in one line.

use std::fmt;
use std::time::Duration;

use polylock::backend::HumanDuration;

use crate::store::Crowded;
use crate::waiting::Kind;

#[derive(Debug)]
pub(crate) struct Report {
    store: &'static str,
    kind: Kind,
    settings: String,
    many: usize,
    pub(crate) requests_to_queue: u64,
    pub(crate) settled: Duration,
    pub(crate) idle: f64,
    pub(crate) bytes: i64,
    pub(crate) turns: Duration,
}

impl Report {
    pub(crate) fn new(store: &Crowded, kind: Kind, settings: &str, many: usize) -> Self {
        Self {
            store: store.name,
            kind,
            settings: settings.to_owned(),
            many,
            requests_to_queue: 0,
            settled: Duration::ZERO,
            idle: 0.0,
            bytes: 0,
            turns: Duration::ZERO,
        }
    }
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "crowd | {} | {} {} | {} | settled {} | {} requests | idle {:.1}/s | {} B a waiter | {} for all | {:.0} turns/s",
            self.store,
            self.kind.name(),
            self.settings,
            self.many,
            HumanDuration(self.settled),
            self.requests_to_queue,
            self.idle,
            self.bytes,
            HumanDuration(self.turns),
            self.many as f64 / self.turns.as_secs_f64().max(0.001)
        )
    }
}
