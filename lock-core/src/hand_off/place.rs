//! What ties a guard to the queue of its key, so that its hold can be handed on.

use std::sync::Arc;

use tokio::time::Instant;

use super::queues::Queues;
use super::slot::Slot;
use crate::LockKey;
use crate::hold::Hold;

/// The tie between a hold and the queue that it came from.
///
/// While an exclusive hold has it nobody of this process claims the key on the store; dropping it lets the
/// next waiter do so. Beside a permit the next waiter has its claim on the store already.
#[derive(Debug)]
pub(crate) struct Place {
    queues: Arc<Queues>,
    key: LockKey,
    kind: Kind,
    /// When the hold was won.
    since: Instant,
}

#[derive(Clone, Copy, Debug)]
enum Kind {
    /// With the number of the hold.
    Exclusive(u64),
    Permit,
}

/// Lets the next waiter claim the key when a hold is lost, although its guard is still there.
pub(crate) struct Forfeiter {
    queues: Arc<Queues>,
    key: LockKey,
    number: u64,
}

impl Place {
    pub(super) fn exclusive(queues: &Arc<Queues>, key: &LockKey, number: u64) -> Self {
        Self::new(queues, key, Kind::Exclusive(number))
    }

    pub(super) fn permit(queues: &Arc<Queues>, key: &LockKey) -> Self {
        Self::new(queues, key, Kind::Permit)
    }

    fn new(queues: &Arc<Queues>, key: &LockKey, kind: Kind) -> Self {
        Self {
            queues: Arc::clone(queues),
            key: key.clone(),
            kind,
            since: Instant::now(),
        }
    }

    /// The next waiter, if it may have `hold` as it is: within the budget, with the ttl and the lock
    /// delay it asked for, and with most of the lease ahead.
    pub(crate) fn next_waiter(&self, hold: &Hold) -> Option<Arc<Slot>> {
        if self.since.elapsed() >= self.queues.budget || !hold.is_fresh() {
            return None;
        }
        match self.kind {
            Kind::Exclusive(number) => self.queues.next_for_hold(&self.key, number, hold),
            Kind::Permit => self.queues.next_for_permit(&self.key, hold),
        }
    }

    /// Says that the guard at this place has ended, although its release may take a while.
    pub(crate) fn gives_up(&self) {
        if let Kind::Exclusive(number) = self.kind {
            self.queues.hold_ended(&self.key, number);
        }
    }

    /// Puts a waiter back that was taken out for nothing.
    pub(crate) fn put_back(&self, waiter: Arc<Slot>) {
        self.queues.put_back(waiter);
    }

    /// Lets the next waiter claim the key.
    pub(crate) fn forfeit(&self) {
        if let Some(forfeiter) = self.forfeiter() {
            forfeiter.forfeit();
        }
    }

    pub(crate) fn forfeiter(&self) -> Option<Forfeiter> {
        match self.kind {
            Kind::Exclusive(number) => Some(Forfeiter {
                queues: Arc::clone(&self.queues),
                key: self.key.clone(),
                number,
            }),
            Kind::Permit => None,
        }
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        if let Kind::Exclusive(number) = self.kind {
            let rests_until = Instant::now() + self.queues.rest;
            self.queues.hold_left(&self.key, number, Some(rests_until));
        }
    }
}

impl Forfeiter {
    pub(crate) fn forfeit(&self) {
        self.queues.hold_left(&self.key, self.number, None);
    }
}
