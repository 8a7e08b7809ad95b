//! Looks now and then at how long the waiters of a key have waited, and for what.

use std::sync::{Arc, Weak};
use std::time::Duration;

use super::queues::HandOffQueues;
use super::slot::Slot;
use crate::LockKey;
use crate::mutex::Mutex;
use crate::waiter::watchdog::{self, Progress, Watched};

/// One look after the other, as long as a task waits for the key.
struct QueueWatch {
    queues: Weak<HandOffQueues>,
    key: LockKey,
    limit: Duration,
    /// The release that they waited for at the last look.
    ended: Mutex<Option<u64>>,
}

impl HandOffQueues {
    /// Begins to look after the queue that `waiter` is in, unless that has begun.
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
