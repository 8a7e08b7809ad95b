//! The tie between a guard and the queue of its key, by which its hold can be handed on.

use std::sync::Arc;
use std::time::Duration;

use tokio::time::Instant;

use super::queues::Queues;
use super::slot::Slot;
use crate::LockKey;
use crate::hold::Hold;

/// The tie between an exclusive hold and the queue that it came from.
///
/// While it is there nobody of this process claims the key on the store; dropping it lets the next waiter do so.
#[derive(Debug)]
pub(crate) struct Place {
    queues: Arc<Queues>,
    key: LockKey,
    /// The number of the hold.
    number: u64,
    /// When the hold was won.
    since: Instant,
}

/// Lets the next waiter claim the key when a hold is lost, although its guard is still there.
pub(crate) struct Forfeiter {
    queues: Arc<Queues>,
    key: LockKey,
    number: u64,
}

impl Place {
    pub(super) fn new(queues: &Arc<Queues>, key: &LockKey, number: u64) -> Self {
        Self {
            queues: Arc::clone(queues),
            key: key.clone(),
            number,
            since: Instant::now(),
        }
    }

    /// The next waiter, if it may have `hold` as it is: within the budget, with the ttl and the lock
    /// delay it asked for, and with most of the lease ahead.
    pub(crate) fn next_waiter(&self, hold: &Hold) -> Option<Arc<Slot>> {
        if self.since.elapsed() >= self.queues.budget || !hold.is_fresh() {
            return None;
        }
        self.queues.next_for_hold(&self.key, self.number, hold)
    }

    /// Says that the guard at this place has ended, although its release may take a while.
    pub(crate) fn gives_up(&self) {
        self.queues.hold_ended(&self.key, self.number);
    }

    /// Puts a waiter back that was taken out for nothing.
    pub(crate) fn put_back(&self, waiter: Arc<Slot>) {
        self.queues.put_back(waiter);
    }

    /// Lets the next waiter claim the key.
    pub(crate) fn forfeit(&self) {
        self.forfeiter().forfeit();
    }

    pub(crate) fn forfeiter(&self) -> Forfeiter {
        Forfeiter {
            queues: Arc::clone(&self.queues),
            key: self.key.clone(),
            number: self.number,
        }
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        self.queues
            .hold_left(&self.key, self.number, self.since.elapsed());
    }
}

impl Forfeiter {
    pub(crate) fn forfeit(&self) {
        self.queues
            .hold_left(&self.key, self.number, Duration::ZERO);
    }
}
