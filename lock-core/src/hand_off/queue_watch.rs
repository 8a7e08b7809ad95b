//! Periodic checks of the waiters of a key, for long waits and stuck releases.

use std::sync::{Arc, Weak};
use std::time::Duration;

use super::queues::HandOffQueues;
use super::slot::Slot;
use crate::LockKey;
use crate::mutex::Mutex;
use crate::waiter::watchdog::{self, Progress, Watched};

/// The periodic check of one key, for as long as a task waits for it.
struct QueueWatch {
    queues: Weak<HandOffQueues>,
    key: LockKey,
    limit: Duration,
    /// The pending release that the waiters waited for at the last check.
    ended: Mutex<Option<u64>>,
}

impl HandOffQueues {
    /// Starts the check of the queue of `waiter`, unless it is running.
    pub(super) fn watch(self: &Arc<Self>, waiter: &Slot) {
        let mut watches = self.watches.lock();
        if watches.contains_key(&waiter.key) {
            return;
        }
        let watch = Arc::new(QueueWatch {
            queues: Arc::downgrade(self),
            key: waiter.key.clone(),
            limit: watchdog::limit(waiter.wants.ttl),
            ended: Mutex::default(),
        });
        self.watchdog.probe(&watch, waiter.runtime.as_ref());
        watches.insert(waiter.key.clone(), watch);
    }
}

impl Watched for QueueWatch {
    fn progress(&self, _seen: u64) -> Progress {
        Progress::Settled
    }

    fn limit(&self) -> Duration {
        self.limit
    }

    fn lapse(&self, _seen: u64) {}

    fn is_under_way(&self) -> bool {
        true
    }

    fn probe(self: Arc<Self>) {
        if let Some(queues) = self.queues.upgrade() {
            let before = *self.ended.lock();
            *self.ended.lock() = queues.look_after(&self.key, before);
        }
    }
}
