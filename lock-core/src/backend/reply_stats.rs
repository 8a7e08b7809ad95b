//! Time and latency of a store's last answers.

use std::time::Duration;

use crate::backend::{Clock, Moment};
use crate::mutex::Mutex;

/// Records the time of a store's last answer and the latency of its answers.
///
/// ```
/// use lock_core::backend::{Clock, ReplyStats};
///
/// let stats = ReplyStats::new();
/// let sent = Clock::Boot.now();
/// stats.note(sent);
/// assert!(stats.last().at >= sent);
/// ```
#[derive(Debug)]
pub struct ReplyStats(Mutex<LastReply>);

/// The values of a [`ReplyStats`].
#[derive(Clone, Copy, Debug)]
#[non_exhaustive]
pub struct LastReply {
    /// When the last answer arrived; before the first answer, when the statistics were created.
    pub at: Moment,
    /// The highest recent latency: it decays by an eighth with each faster answer.
    pub latency: Duration,
}

impl ReplyStats {
    /// Creates statistics without an answer.
    pub fn new() -> Self {
        Self(Mutex::new(LastReply {
            at: Clock::Boot.now(),
            latency: Duration::ZERO,
        }))
    }

    /// Records that the request `sent` at that moment has just been answered.
    pub fn note(&self, sent: Moment) {
        let at = Clock::Boot.now();
        let mut last = self.0.lock();
        let latency = at.since(sent).max(last.latency * 7 / 8);
        *last = LastReply { at, latency };
    }

    /// Returns the present values.
    pub fn last(&self) -> LastReply {
        *self.0.lock()
    }
}

impl Default for ReplyStats {
    fn default() -> Self {
        Self::new()
    }
}
