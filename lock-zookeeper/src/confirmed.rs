//! When the members have confirmed a session last.

use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use lock_core::{Clock, Moment};

/// How long a confirmation stands for the next one, at most, and which part of a ttl: a grant that counts from it is as much
/// shorter.
const LATELY: Duration = Duration::from_millis(200);
const PART_OF_TTL: u32 = 50;

/// Of one session. Each transaction in it confirms it.
#[derive(Debug, Default)]
pub(crate) struct Confirmed(Mutex<Option<Moment>>);

impl Confirmed {
    /// Notes that what was `sent` then has been confirmed.
    pub(crate) fn note(&self, sent: Moment) {
        let mut last = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        *last = last.max(Some(sent));
    }

    /// When the last thing was sent that has been confirmed, if that was lately in the eyes of a hold with this ttl.
    pub(crate) fn lately(&self, ttl: Duration) -> Option<Moment> {
        let last = *self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let limit = LATELY.min(ttl / PART_OF_TTL);
        last.filter(|sent| Clock::Boot.now().since(*sent) <= limit)
    }
}
