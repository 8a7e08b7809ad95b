//! Who is told when a key of the server changes: its waiters, and the keeper if it is ours.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, OnceLock};

use lock_core::Alarm;
use redis::{PushInfo, PushKind, Value};
use tokio::sync::Notify;

use crate::layout::Layout;
use crate::link::locked;

/// The waiters of one client, by the server's key.
///
/// The server tells the background connection when a key changes that was read on it
/// (`CLIENT TRACKING`), also by a plain `DEL` of another client and by expiry, once a read. So a
/// waiter first enters here, then reads the key, and reads it again after every wake-up. A renewal
/// reads it, too, so a hold that was renewed once hears of its removal at once.
#[derive(Debug)]
pub(crate) struct Hub {
    layout: Layout,
    waiters: Mutex<HashMap<Vec<u8>, Arc<Notify>>>,
    alarm: OnceLock<Alarm>,
}

impl Hub {
    pub(crate) fn new(layout: Layout) -> Self {
        Self {
            layout,
            waiters: Mutex::default(),
            alarm: OnceLock::new(),
        }
    }

    /// Has the keeper told of changes from now on.
    pub(crate) fn raise(&self, alarm: Alarm) {
        // A client has one keeper in its life, so nothing is ever overwritten.
        let _first = self.alarm.set(alarm);
    }

    /// Enters a waiter for `key`. The line lets one waiter a key through, so there is one entry.
    pub(crate) fn watch(self: &Arc<Self>, key: Vec<u8>) -> Watcher {
        let changed = Arc::new(Notify::new());
        self.lock_waiters()
            .insert(key.clone(), Arc::clone(&changed));
        Watcher {
            hub: Arc::clone(self),
            key,
            changed,
        }
    }

    /// Takes what the server pushed.
    pub(crate) fn pushed(&self, push: &PushInfo) {
        match &push.kind {
            PushKind::Invalidate => match push.data.first() {
                Some(Value::Array(keys)) => keys.iter().for_each(|key| self.key_changed(key)),
                // `nil` instead of a list means every key: FLUSHALL and FLUSHDB.
                _ => {
                    self.wake_all();
                    self.alarm.get().inspect(|alarm| alarm.all_changed());
                }
            },
            // What changes from now on is not told: everybody has to look again.
            PushKind::Disconnection => self.wake_all(),
            _ => {}
        }
    }

    /// Lets every waiter look again.
    pub(crate) fn wake_all(&self) {
        self.lock_waiters()
            .values()
            .for_each(|changed| changed.notify_one());
    }

    fn key_changed(&self, key: &Value) {
        let Value::BulkString(key) = key else {
            return;
        };
        if let Some(changed) = self.lock_waiters().get(key) {
            changed.notify_one();
        }
        if let (Some(alarm), Some(lock)) = (self.alarm.get(), self.layout.lock_of(key)) {
            alarm.changed(&lock);
        }
    }

    fn lock_waiters(&self) -> MutexGuard<'_, HashMap<Vec<u8>, Arc<Notify>>> {
        locked(&self.waiters)
    }
}

/// A waiter's entry; dropping it takes it out.
#[derive(Debug)]
pub(crate) struct Watcher {
    hub: Arc<Hub>,
    key: Vec<u8>,
    changed: Arc<Notify>,
}

impl Watcher {
    /// Waits for the next change. One that came since the last call counts.
    pub(crate) async fn changed(&self) {
        self.changed.notified().await;
    }
}

impl Drop for Watcher {
    fn drop(&mut self) {
        let mut waiters = self.hub.lock_waiters();
        if waiters
            .get(&self.key)
            .is_some_and(|changed| Arc::ptr_eq(changed, &self.changed))
        {
            waiters.remove(&self.key);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use lock_core::Namespace;

    #[test]
    fn a_watcher_that_goes_leaves_nothing_and_takes_nobody_along() {
        let hub = Arc::new(Hub::new(Layout::new(&Namespace::none())));
        let first = hub.watch(b"k".to_vec());
        let second = hub.watch(b"k".to_vec());
        drop(first);
        assert_eq!(hub.lock_waiters().len(), 1, "the second one went along");
        drop(second);
        assert!(hub.lock_waiters().is_empty(), "a key stays for ever");
    }
}
