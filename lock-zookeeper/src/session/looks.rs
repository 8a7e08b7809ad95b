//! The looks at queues that callers share.
//!
//! A server lists a queue as a whole, so a crowd in which each claim looks for itself reads the
//! square of its length, and the requests that keep holds alive wait behind that. Here one look at
//! a queue is under way at a time, and answers all callers that asked before it was sent. Few
//! queues are looked at at once in a session.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use lock_core::backend::{Clock, Moment, Mutex};
use tokio::runtime::Handle;
use tokio::sync::{Semaphore, oneshot};

use crate::error::DriverResult;
use crate::queue::Queue;

/// The largest number of looks at once in a session.
const LOOKS_AT_ONCE: usize = 8;

/// The time that a queue is remembered.
const REMEMBERED: Duration = Duration::from_secs(5);

/// The number of queues from which on old ones are forgotten.
const QUEUES_MIN: usize = 64;

/// A queue, and when the request was sent that confirmed its session.
pub(crate) type Seen = (Moment, Arc<Queue>);

pub(super) type Asker = oneshot::Sender<DriverResult<Seen>>;

/// The looks of one session.
#[derive(Debug)]
pub(crate) struct Looks {
    pub(super) queues: Mutex<HashMap<Arc<str>, Entry>>,
    pub(super) limit: Semaphore,
    pub(super) runtime: Handle,
}

#[derive(Debug, Default)]
pub(super) struct Entry {
    pub(super) is_under_way: bool,
    pub(super) askers: Vec<Asker>,
    /// The queue that was seen last, and when that was requested.
    pub(super) last: Option<(Moment, Seen)>,
}

impl Looks {
    /// Makes the looks of the session that lives on `runtime`.
    pub(crate) fn new(runtime: Handle) -> Self {
        Self {
            queues: Mutex::default(),
            limit: Semaphore::new(LOOKS_AT_ONCE),
            runtime,
        }
    }

    /// Returns the queue of `lock` from a look that was sent after `moment`.
    pub(crate) fn seen_since(&self, lock: &str, moment: Moment) -> Option<Seen> {
        let queues = self.queues.lock();
        let (sent, seen) = queues.get(lock)?.last.as_ref()?;
        (*sent > moment).then(|| seen.clone())
    }

    /// Joins the next look at the queue of `lock`; `None` if the caller has to look now.
    pub(super) fn ask(&self, lock: &Arc<str>) -> Option<oneshot::Receiver<DriverResult<Seen>>> {
        let mut queues = self.queues.lock();
        if queues.len() >= QUEUES_MIN && !queues.contains_key(lock) {
            let now = Clock::Boot.now();
            queues.retain(|_, entry| {
                let last = entry.last.as_ref();
                entry.is_under_way || last.is_some_and(|(sent, _)| now.since(*sent) < REMEMBERED)
            });
        }
        let entry = queues.entry(Arc::clone(lock)).or_default();
        if !entry.is_under_way {
            entry.is_under_way = true;
            return None;
        }
        let (asker, answer) = oneshot::channel();
        entry.askers.push(asker);
        Some(answer)
    }
}
