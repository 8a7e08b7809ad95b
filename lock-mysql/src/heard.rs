//! What is known of the server's last answers.

use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use lock_core::{Clock, Moment};

/// When the server answered last, and how long that took.
#[derive(Debug)]
pub(crate) struct Heard(Mutex<Answered>);

#[derive(Clone, Copy, Debug)]
pub(crate) struct Answered {
    pub(crate) at: Moment,
    /// The longest that answers took lately: it falls by an eighth with each quicker answer.
    pub(crate) latency: Duration,
}

impl Heard {
    pub(crate) fn new() -> Self {
        Self(Mutex::new(Answered {
            at: Clock::Boot.now(),
            latency: Duration::ZERO,
        }))
    }

    /// Notes that what was `sent` then has been answered.
    pub(crate) fn note(&self, sent: Moment) {
        let at = Clock::Boot.now();
        let mut answered = self.lock();
        let latency = at.since(sent).max(answered.latency * 7 / 8);
        *answered = Answered { at, latency };
    }

    pub(crate) fn last(&self) -> Answered {
        *self.lock()
    }

    fn lock(&self) -> MutexGuard<'_, Answered> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
