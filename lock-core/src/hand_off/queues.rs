//! The queues of one client, per key, which connect waiters, guards and claims on the store.

use std::collections::HashMap;
use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use tokio::time::Instant;

use super::queue::{HandOffQueue, Wants};
use super::slot::{Slot, SlotQueues, SlotState};
use crate::backend::retry::OUTAGE_LIMIT;
use crate::backend::{Clock, Moment};
use crate::hold::Hold;
use crate::mutex::Mutex;
use crate::waiter::count::Waiters;
use crate::waiter::watchdog::{Watchdog, Watched};
use crate::{Capabilities, DistributedLock, Error, LockGuard, LockKey, LockRequest, Wait};

/// The queues of one client.
pub(crate) struct HandOffQueues {
    pub(super) locks: Arc<dyn DistributedLock>,
    capabilities: Capabilities,
    pub(super) by_key: Mutex<HashMap<LockKey, HandOffQueue<Arc<Slot>>>>,
    /// The running checks, for keys with waiters.
    pub(super) watches: Mutex<HashMap<LockKey, Arc<dyn Watched>>>,
    /// Number of exclusive holds so far. Each hold has its own number, so that the end of a lost
    /// hold does not affect a later one.
    pub(super) holds: AtomicU64,
    /// Maximum time that one hold may be handed on.
    pub(super) budget: Duration,
    /// Pause before the next claim after a spent budget, so that other processes get their turn.
    pub(super) rest: Duration,
    pub(super) watchdog: Watchdog,
    pub(super) waiters: Waiters,
}

impl HandOffQueues {
    pub(super) fn new(
        locks: Arc<dyn DistributedLock>,
        budget: Duration,
        rest: Duration,
        watchdog: Watchdog,
    ) -> Self {
        Self {
            capabilities: locks.capabilities(),
            locks,
            by_key: Mutex::default(),
            watches: Mutex::default(),
            holds: AtomicU64::new(0),
            budget,
            rest,
            watchdog,
            waiters: Waiters::default(),
        }
    }

    /// Adds a waiter for `request` at the end of its key's queue.
    pub(super) fn arrive(
        self: &Arc<Self>,
        request: &LockRequest,
        arrived: Moment,
        lapses: u32,
    ) -> Arc<Slot> {
        let slot = Arc::new(Slot::new(
            Arc::<Self>::clone(self),
            request,
            arrived,
            lapses,
        ));
        let mut queues = self.by_key.lock();
        match queues.get_mut(&request.key) {
            Some(queue) => {
                if let Some(driver) = queue.driver() {
                    driver.is_followed.store(true, Ordering::Relaxed);
                }
                queue.push(Arc::clone(&slot));
                drop(queues);
                self.watch(&slot);
            }
            None => {
                let _fresh = slot.set(SlotState::Drives(None));
                queues.insert(request.key.clone(), HandOffQueue::new(Arc::clone(&slot)));
            }
        }
        slot
    }

    /// Checks the waiters of `key`; returns the exclusive hold whose release they wait for, if any.
    ///
    /// If that is the hold of the check `before`, the task that awaits the release may not be
    /// polled, so the next waiter claims.
    pub(super) fn look_after(&self, key: &LockKey, before: Option<u64>) -> Option<u64> {
        let ended = self.by_key.lock().get(key).and_then(HandOffQueue::ended);
        if let Some(number) = ended.filter(|_| ended == before) {
            self.hold_left(key, number, Duration::ZERO);
        }
        if self.note_wait(key) {
            return ended;
        }
        let watch = self.watches.lock().remove(key);
        drop(watch);
        None
    }

    /// Returns true if a guard or a waiter of this process is in the queue of `key`.
    pub(super) fn is_in_use(&self, key: &LockKey) -> bool {
        self.by_key.lock().contains_key(key)
    }

    /// Returns true if a guard of this process holds `key` exclusively.
    pub(super) fn is_held(&self, key: &LockKey) -> bool {
        self.by_key
            .lock()
            .get(key)
            .is_some_and(HandOffQueue::is_held)
    }

    /// Makes the next waiter the driver after `driver` has given up.
    pub(super) fn driver_left(&self, driver: &Slot) {
        self.pass_from(&driver.key, Duration::ZERO, |queue| {
            queue
                .driver()
                .is_some_and(|other| std::ptr::eq(Arc::as_ptr(other), driver))
        });
    }

    /// Lets the next waiter claim `key` after the exclusive hold `number`.
    ///
    /// The claim follows after a pause if `held`, the time that this process had the hold, spends
    /// the budget.
    pub(super) fn hold_left(&self, key: &LockKey, number: u64, held: Duration) {
        self.pass_from(key, held, |queue| queue.belongs_to(number));
    }

    /// Records that the exclusive hold `number` has ended, although its release may take longer.
    pub(super) fn hold_ended(&self, key: &LockKey, number: u64) {
        if let Some(queue) = self.by_key.lock().get_mut(key) {
            queue.end(number);
        }
    }

    fn pass_from(
        &self,
        key: &LockKey,
        held: Duration,
        is_it: impl Fn(&HandOffQueue<Arc<Slot>>) -> bool,
    ) {
        let mut queues = self.by_key.lock();
        let Some(queue) = queues.get_mut(key).filter(|queue| is_it(queue)) else {
            return;
        };
        let rests = queue.spend(held, self.budget) && !self.rest.is_zero();
        let next = next_driver(queue, rests.then(|| Instant::now() + self.rest));
        if next.is_none() {
            queues.remove(key);
        }
        drop(queues);
        if let Some(next) = next {
            next.notify();
        }
    }

    /// Returns the next waiter if it may have the exclusive hold `number` of `guard`.
    pub(super) fn next_for_hold(
        &self,
        key: &LockKey,
        number: u64,
        guard: &LockGuard,
    ) -> Option<Arc<Slot>> {
        let mut queues = self.by_key.lock();
        let queue = queues
            .get_mut(key)
            .filter(|queue| queue.belongs_to(number))?;
        let next = queue.next_alike(&wants_of(guard.hold()))?;
        if guard.can_be_kept_on(next.runtime_id()) {
            return Some(next);
        }
        queue.put_back(next);
        None
    }

    /// Returns true if the backend rejects the request, which then need not wait in a queue.
    pub(super) fn is_refused(&self, request: &LockRequest) -> bool {
        self.capabilities.check(request).is_err()
    }

    /// Returns true if the last driver gave up because the store was unreachable.
    pub(super) fn is_silent(&self, key: &LockKey) -> bool {
        self.by_key
            .lock()
            .get(key)
            .is_some_and(|queue| queue.is_silent)
    }

    /// Records whether `driver` gave up because the store was unreachable.
    pub(super) fn note_outage(&self, driver: &Slot, is_silent: bool) {
        if let Some(queue) = self.by_key.lock().get_mut(&driver.key) {
            queue.is_silent = is_silent;
        }
    }

    /// Puts a waiter back at the head of its queue.
    pub(super) fn put_back(&self, slot: Arc<Slot>) {
        let mut queues = self.by_key.lock();
        if let Some(queue) = queues.get_mut(&slot.key) {
            queue.put_back(slot);
            return;
        }
        if slot.set(SlotState::Drives(None)).is_some() {
            // The waiter is gone, and no other waits.
            return;
        }
        queues.insert(slot.key.clone(), HandOffQueue::new(Arc::clone(&slot)));
        drop(queues);
        slot.notify();
    }
}

/// Makes the next waiter the driver and returns it; the caller wakes it.
pub(super) fn next_driver(
    queue: &mut HandOffQueue<Arc<Slot>>,
    rests_until: Option<Instant>,
) -> Option<Arc<Slot>> {
    while let Some(next) = queue.pass() {
        next.is_followed
            .store(queue.has_waiters(), Ordering::Relaxed);
        if next.set(SlotState::Drives(rests_until)).is_none() {
            return Some(next);
        }
    }
    None
}

fn wants_of(hold: &Hold) -> Wants {
    Wants {
        mode: hold.id.mode(),
        ttl: hold.id.ttl(),
        lock_delay: hold.id.lock_delay(),
        min_hold: hold.id.min_hold(),
        own_grant: hold.id.has_own_grant(),
        label: hold.id.shared_label(),
    }
}

impl SlotQueues for HandOffQueues {
    fn watchdog(&self) -> &Watchdog {
        &self.watchdog
    }

    fn note_wait(&self, key: &LockKey) -> bool {
        let queues = self.by_key.lock();
        let first = queues.get(key).and_then(HandOffQueue::first);
        let arrived = first.map(|first| first.arrived);
        drop(queues);
        if let (Some(arrived), Some(keeper)) = (arrived, self.locks.keeper()) {
            keeper.note_wait(key, arrived);
        }
        arrived.is_some()
    }

    fn driver_lapsed(&self, driver: &Slot) {
        drop(driver.take_claim());
        self.driver_left(driver);
    }

    fn look_for_others(&self, lapsed: &Slot) {
        let mut queues = self.by_key.lock();
        let Some(queue) = queues.get_mut(&lapsed.key) else {
            return;
        };
        if !queue.lapsed() {
            return;
        }
        let there = |slot: &&Arc<Slot>| slot.runtime_id() == lapsed.runtime_id();
        let there: Vec<_> = queue.waiters().filter(there).map(Arc::clone).collect();
        drop(queues);
        there.iter().for_each(Slot::notify);
    }

    fn fail_outlasted(&self, driver: &Slot, error: &Error, last_reply: Moment) {
        let now = Clock::Boot.now();
        let queues = self.by_key.lock();
        let behind = queues
            .get(&driver.key)
            .into_iter()
            .flat_map(HandOffQueue::waiters);
        let outlasted = |slot: &&Arc<Slot>| {
            slot.wait == Wait::Forever && now.since(slot.arrived.max(last_reply)) > OUTAGE_LIMIT
        };
        let outlasted: Vec<_> = behind.filter(outlasted).map(Arc::clone).collect();
        drop(queues);
        for slot in outlasted {
            if slot.fail(error.clone()) {
                slot.notify_unwatched();
            }
        }
    }
}

impl fmt::Debug for HandOffQueues {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("HandOffQueues")
            .field("locks", &self.locks)
            .field("waited_for", &self.by_key.lock().keys())
            .finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests;
