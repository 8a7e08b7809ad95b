//! Statistics of a store's last answers.

use std::time::Duration;

use crate::backend::{Clock, Moment};
use crate::mutex::Mutex;

/// Remembers when a store answered last, and how long its answers take.
#[derive(Debug)]
pub struct ReplyStats(Mutex<LastReply>);

/// The statistics that [`ReplyStats`] keeps.
#[derive(Clone, Copy, Debug)]
#[non_exhaustive]
pub struct LastReply {
    /// When the last answer came, or since when there was none.
    pub at: Moment,
    /// The longest that answers took lately: it falls by an eighth with each quicker answer.
    pub latency: Duration,
}

impl ReplyStats {
    /// No answer has come yet.
    pub fn new() -> Self {
        Self(Mutex::new(LastReply {
            at: Clock::Boot.now(),
            latency: Duration::ZERO,
        }))
    }

    /// Notes that what was `sent` then has been answered just now.
    pub fn note(&self, sent: Moment) {
        let at = Clock::Boot.now();
        let mut last = self.0.lock();
        let latency = at.since(sent).max(last.latency * 7 / 8);
        *last = LastReply { at, latency };
    }

    /// Returns what is known by now.
    pub fn last(&self) -> LastReply {
        *self.0.lock()
    }
}

impl Default for ReplyStats {
    fn default() -> Self {
        Self::new()
    }
}
