//! The grant of a driver's claim, and its distribution to waiters.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use super::place::Place;
use super::queue::HandOffQueue;
use super::queues::{HandOffQueues, next_driver};
use super::shared_grant::SharedGrant;
use super::slot::{Slot, SlotState};
use crate::{FencingToken, LockGuard, Mode};

/// Maximum number of guards of one grant beside the first.
const SHARERS_MAX: usize = FencingToken::HAND_OFFS;

impl HandOffQueues {
    /// Makes the driver's guard from its grant.
    ///
    /// It also shares the grant with the readers queued behind, and lets the next waiter claim if
    /// the mode admits more holders.
    pub(super) fn granted(self: &Arc<Self>, driver: &Arc<Slot>, guard: LockGuard) -> LockGuard {
        let mut queues = self.by_key.lock();
        let ours = |queue: &&mut HandOffQueue<Arc<Slot>>| {
            queue
                .driver()
                .is_some_and(|other| Arc::ptr_eq(other, driver))
        };
        let Some(queue) = queues.get_mut(&driver.key).filter(ours) else {
            // The driver has just lapsed, so its hold cannot be handed on.
            return guard.holding_at_most(driver.max_hold());
        };
        queue.is_silent = false;
        if driver.wants.mode == Mode::Exclusive {
            let number = self.holds.fetch_add(1, Ordering::Relaxed);
            queue.hold(number);
            drop(queues);
            let guard = guard.holding_at_most(driver.max_hold());
            return Place::new(self, &driver.key, number).link(guard);
        }
        let sharers = match driver.wants.mode {
            Mode::Shared if !guard.hold().id.has_own_grant() => {
                queue.sharers(&driver.wants, SHARERS_MAX, |slot| {
                    guard.can_be_kept_on(slot.runtime_id())
                })
            }
            Mode::Shared | Mode::Upgradeable | Mode::Exclusive | Mode::Permit { .. } => Vec::new(),
        };
        let next = next_driver(queue, None);
        if next.is_none() {
            queues.remove(&driver.key);
        }
        drop(queues);
        if let Some(next) = next {
            next.notify();
        }
        if sharers.is_empty() {
            return guard.holding_at_most(driver.max_hold());
        }
        self.share(driver, guard, sharers)
    }

    fn share(&self, driver: &Slot, guard: LockGuard, sharers: Vec<Arc<Slot>>) -> LockGuard {
        let (grant, first) = SharedGrant::new(guard, driver.max_hold(), sharers.len());
        for slot in sharers {
            match slot.set(SlotState::Shares(Arc::clone(&grant))) {
                None => slot.notify_unwatched(),
                Some(_) => grant.leave(),
            }
        }
        grant.watch(&self.watchdog, driver.runtime.as_ref());
        first
    }
}
