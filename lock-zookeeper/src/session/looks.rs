//! Looks at queues, whose answers several callers share.
//!
//! A server lists a queue as a whole. If each of n claims looked by itself, the server would read
//! n² claims, and the requests that keep holds alive would wait. So only one look at a queue is
//! under way at a time. It answers all callers that asked before it was sent. And a session looks
//! at few queues at once.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use lock_core::backend::{Clock, Moment, Mutex};
use tokio::sync::{Semaphore, oneshot};

use crate::error::DriverResult;
use crate::queue::QueueListing;

/// The largest number of looks that a session has under way.
const LOOKS_AT_ONCE: usize = 8;

/// The time for which the last listing of a queue is kept.
const REMEMBERED: Duration = Duration::from_secs(5);

/// The number of queues from which on old listings are removed.
const QUEUES_MIN: usize = 64;

/// The moment at which the request was sent that confirmed the session, and the listing.
pub(crate) type ConfirmedListing = (Moment, Arc<QueueListing>);

type Answer = oneshot::Sender<DriverResult<ConfirmedListing>>;

/// The looks of one session.
pub(crate) struct Looks {
    queues: Mutex<HashMap<Arc<str>, QueueLooks>>,
    pub(super) limit: Semaphore,
}

/// The looks at one queue.
#[derive(Default)]
struct QueueLooks {
    is_under_way: bool,
    /// The callers that wait for the next look.
    waiting: Vec<Answer>,
    /// When the last look was requested, and its listing.
    last: Option<(Moment, ConfirmedListing)>,
}

impl Default for Looks {
    fn default() -> Self {
        Self {
            queues: Mutex::default(),
            limit: Semaphore::new(LOOKS_AT_ONCE),
        }
    }
}

impl Looks {
    /// Returns the queue of `lock` from a look that was sent after `moment`.
    pub(crate) fn listed_since(&self, lock: &str, moment: Moment) -> Option<ConfirmedListing> {
        let queues = self.queues.lock();
        let (sent, listing) = queues.get(lock)?.last.as_ref()?;
        (*sent > moment).then(|| listing.clone())
    }

    /// Adds a caller to the next look at the queue of `lock`. Returns true if no look is under way,
    /// so that the caller has to begin the look.
    pub(super) fn ask(&self, lock: &Arc<str>, answer: Answer) -> bool {
        let mut queues = self.queues.lock();
        if queues.len() >= QUEUES_MIN && !queues.contains_key(lock) {
            let now = Clock::Boot.now();
            queues.retain(|_, looks| {
                let last = looks.last.as_ref();
                looks.is_under_way || last.is_some_and(|(sent, _)| now.since(*sent) < REMEMBERED)
            });
        }
        let looks = queues.entry(Arc::clone(lock)).or_default();
        looks.waiting.push(answer);
        !std::mem::replace(&mut looks.is_under_way, true)
    }

    /// Returns the callers that the next look at the queue of `lock` answers. Without callers
    /// returns `None`, and notes that no look is under way.
    pub(super) fn begin(&self, lock: &Arc<str>) -> Option<Vec<Answer>> {
        let mut queues = self.queues.lock();
        let looks = queues.get_mut(lock)?;
        looks.waiting.retain(|answer| !answer.is_closed());
        looks.is_under_way = !looks.waiting.is_empty();
        looks
            .is_under_way
            .then(|| std::mem::take(&mut looks.waiting))
    }

    /// Keeps the listing of a look at the queue of `lock` that was sent at `sent`.
    pub(super) fn remember(&self, lock: &Arc<str>, sent: Moment, listing: ConfirmedListing) {
        if let Some(looks) = self.queues.lock().get_mut(lock) {
            looks.last = Some((sent, listing));
        }
    }
}
