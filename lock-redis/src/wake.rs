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
/// The server tells a connection when a key was changed by another one, once after it was read there for
/// that (`CLIENT TRACKING`), also by a plain `DEL` of another client and by expiry. So a waiter first
/// enters here, then asks for the key on its command connection, and asks again after every wake-up. What is
/// changed on that connection itself we know: see [`wake_at_the_end`](Self::wake_at_the_end). A renewal
/// reads the key on the background connection, so a hold that was renewed once hears of its removal at
/// once.
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

    /// Takes what the server says unasked on a command connection.
    pub(crate) fn waiters_are_told(&self, push: &PushInfo) {
        match changes(push) {
            Changes::Of(keys) => keys.for_each(|key| self.wake(key)),
            Changes::All => self.wake_all(),
            Changes::None => {}
        }
        if push.kind == PushKind::Disconnection {
            // What changes from now on is not told: everybody has to ask again.
            self.wake_all();
        }
    }

    /// Takes what the server says unasked on the background connection.
    pub(crate) fn keeper_is_told(&self, push: &PushInfo) {
        let Some(alarm) = self.alarm.get() else {
            return;
        };
        match changes(push) {
            Changes::Of(keys) => keys
                .filter_map(|key| self.layout.lock_of(key))
                .for_each(|lock| alarm.changed(&lock)),
            Changes::All => alarm.all_changed(),
            Changes::None => {}
        }
    }

    /// Wakes the waiter for `key` when the outcome is dropped: when we have given the key back, or may have.
    pub(crate) fn wake_at_the_end(&self, key: Vec<u8>) -> WakeAtTheEnd<'_> {
        WakeAtTheEnd { hub: self, key }
    }

    fn wake_all(&self) {
        self.lock_waiters()
            .values()
            .for_each(|changed| changed.notify_one());
    }

    fn wake(&self, key: &[u8]) {
        if let Some(changed) = self.lock_waiters().get(key) {
            changed.notify_one();
        }
    }

    fn lock_waiters(&self) -> MutexGuard<'_, HashMap<Vec<u8>, Arc<Notify>>> {
        locked(&self.waiters)
    }
}

/// What the server says to have changed.
enum Changes<Keys> {
    None,
    Of(Keys),
    All,
}

fn changes(push: &PushInfo) -> Changes<impl Iterator<Item = &[u8]>> {
    match (&push.kind, push.data.first()) {
        (PushKind::Invalidate, Some(Value::Array(keys))) => {
            Changes::Of(keys.iter().filter_map(|key| match key {
                Value::BulkString(key) => Some(key.as_slice()),
                _ => None,
            }))
        }
        // `nil` instead of a list means every key: FLUSHALL and FLUSHDB.
        (PushKind::Invalidate, _) => Changes::All,
        _ => Changes::None,
    }
}

/// Wakes the waiter for a key when it is dropped.
#[derive(Debug)]
pub(crate) struct WakeAtTheEnd<'a> {
    hub: &'a Hub,
    key: Vec<u8>,
}

impl Drop for WakeAtTheEnd<'_> {
    fn drop(&mut self) {
        self.hub.wake(&self.key);
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
