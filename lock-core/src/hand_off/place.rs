//! The link from a guard to the queue of its key, through which its hold is handed on.

use std::sync::Arc;
use std::time::Duration;

use tokio::time::Instant;

use super::queues::HandOffQueues;
use super::slot::Slot;
use crate::api::guard::{HandedOn, Successors};
use crate::{LockGuard, LockKey};

/// The link from an exclusive hold to the queue of its key.
///
/// While it exists, no waiter of this process claims the key on the store. Dropping it lets the
/// next waiter claim.
#[derive(Debug)]
pub(super) struct Place {
    queues: Arc<HandOffQueues>,
    key: LockKey,
    /// The number of the hold in [`HandOffQueues::holds`].
    number: u64,
    /// When the hold was granted.
    since: Instant,
}

impl Place {
    pub(super) fn new(queues: &Arc<HandOffQueues>, key: &LockKey, number: u64) -> Self {
        Self {
            queues: Arc::clone(queues),
            key: key.clone(),
            number,
            since: Instant::now(),
        }
    }

    /// Lets `guard` hand its hold on through this link when it is released.
    ///
    /// A guard that has a link already, because one `HandOff` wraps another, keeps it.
    pub(super) fn link(self, guard: LockGuard) -> LockGuard {
        if guard.has_successors() {
            return guard;
        }
        let (queues, key, number) = (Arc::clone(&self.queues), self.key.clone(), self.number);
        let forfeit = move || queues.hold_left(&key, number, Duration::ZERO);
        guard.hold().on_loss(forfeit);
        // The hold may have been lost before the callback was registered.
        if guard.hold().expire_if_due().is_err() {
            self.queues
                .hold_left(&self.key, self.number, Duration::ZERO);
        }
        guard.with_successors(Box::new(self))
    }

    /// Returns the next waiter if it may have the hold of `guard`.
    ///
    /// The hold must be within its budget, with most of the lease left, and mode, ttl, lock delay
    /// and label must be equal. With a minimum hold or in an election, each guard gets a grant of
    /// its own.
    fn next_waiter(&self, guard: &LockGuard) -> Option<Arc<Slot>> {
        let hold = guard.hold();
        let is_spent = self.since.elapsed() >= self.queues.budget || !hold.is_fresh();
        if is_spent || hold.id.has_own_grant() {
            return None;
        }
        self.queues.next_for_hold(&self.key, self.number, guard)
    }
}

impl Successors for Place {
    fn hand_on(self: Box<Self>, mut guard: LockGuard) -> HandedOn {
        let next = guard
            .may_be_handed_on()
            .then(|| self.next_waiter(&guard))
            .flatten();
        let Some(waiter) = next else {
            return HandedOn::ToNone(guard.with_successors(self));
        };
        if !guard.begin_next_turn(waiter.max_hold()) {
            // The hold was just lost.
            self.queues.put_back(waiter);
            return HandedOn::ToNone(guard.with_successors(self));
        }
        match waiter.give(guard.with_successors(self)) {
            None => HandedOn::ToNext,
            Some(refused) => HandedOn::Refused(refused),
        }
    }

    fn guard_ended(&self) {
        self.queues.hold_ended(&self.key, self.number);
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        self.queues
            .hold_left(&self.key, self.number, self.since.elapsed());
    }
}
