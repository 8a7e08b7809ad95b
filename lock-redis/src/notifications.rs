//! Tells of keys that change on the server: the waiters, and the keeper if the key is held here.

use std::collections::HashMap;
use std::pin::pin;
use std::sync::{Arc, OnceLock};

use lock_core::backend::{Mutex, RecheckHandle};
use redis::{PushInfo, PushKind, Value};
use tokio::sync::Notify;

use crate::keys::Keys;

/// The waiters of one client, by the server's key.
///
/// The server tells a connection when a key was changed by another one, once after it was read
/// there for that (`CLIENT TRACKING`), also by a plain `DEL` of another client and by expiry. So a
/// waiter first enters here, then asks for the key on its command connection, and asks again after
/// every wake-up. What is changed on that connection itself we know: see
/// [`releasing`](Self::releasing). A renewal reads the key on the background connection, so a hold
/// that was renewed once hears of its removal at once.
#[derive(Debug)]
pub(crate) struct Notifications {
    keys: Keys,
    waiters: Mutex<HashMap<Vec<u8>, Waited>>,
    recheck: OnceLock<RecheckHandle>,
}

/// A key that is waited for.
#[derive(Debug, Default)]
struct Waited {
    /// Wakes the first in line.
    changed: Arc<Notify>,
    watchers: usize,
}

impl Notifications {
    pub(crate) fn new(keys: Keys) -> Self {
        Self {
            keys,
            waiters: Mutex::default(),
            recheck: OnceLock::new(),
        }
    }

    /// Has the keeper told of changes from now on.
    pub(crate) fn set_recheck(&self, recheck: RecheckHandle) {
        // A client has one keeper in its life, so nothing is ever overwritten.
        let _first = self.recheck.set(recheck);
    }

    /// Enters a waiter for `key`, who may have to stand in line first.
    pub(crate) fn watch(self: &Arc<Self>, key: Vec<u8>) -> WakeUp {
        let mut waiters = self.waiters.lock();
        let waited = waiters.entry(key.clone()).or_default();
        waited.watchers += 1;
        WakeUp {
            notifications: Arc::clone(self),
            key,
            changed: Arc::clone(&waited.changed),
        }
    }

    /// Takes what the server says unasked on a command connection.
    pub(crate) fn on_command_push(&self, push: &PushInfo) {
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
    pub(crate) fn on_background_push(&self, push: &PushInfo) {
        let Some(recheck) = self.recheck.get() else {
            return;
        };
        match changes(push) {
            Changes::Of(keys) => keys
                .filter_map(|key| self.keys.lock_of(key))
                .for_each(|lock| recheck.changed(&lock)),
            Changes::All => recheck.all_changed(),
            Changes::None => {}
        }
        if push.kind == PushKind::Disconnection {
            self.on_background_lost();
        }
    }

    /// Has the keeper ask for all holds, since what becomes of them is not told any more. Their
    /// renewals open the next connection, and are told on it from then on.
    pub(crate) fn on_background_lost(&self) {
        if let Some(recheck) = self.recheck.get() {
            recheck.all_changed();
        }
    }

    /// Has the waiter for `key`, which we are about to give back, woken by what becomes of the
    /// outcome.
    pub(crate) fn releasing(&self, key: Vec<u8>) -> Releasing<'_> {
        Releasing {
            notifications: self,
            key,
        }
    }

    fn wake_all(&self) {
        for waited in self.waiters.lock().values() {
            waited.changed.notify_one();
        }
    }

    fn wake(&self, key: &[u8]) {
        if let Some(waited) = self.waiters.lock().get(key) {
            waited.changed.notify_one();
        }
    }
}

/// The keys that the server says to have changed.
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

/// Wakes the waiter for a key when it is dropped: when we have given the key back, or may have.
#[derive(Debug)]
pub(crate) struct Releasing<'a> {
    notifications: &'a Notifications,
    key: Vec<u8>,
}

impl Drop for Releasing<'_> {
    fn drop(&mut self) {
        self.notifications.wake(&self.key);
    }
}

/// A waiter, in line or the first one; dropping it takes it out.
#[derive(Debug)]
pub(crate) struct WakeUp {
    notifications: Arc<Notifications>,
    key: Vec<u8>,
    changed: Arc<Notify>,
}

impl WakeUp {
    /// Becomes the one who is woken, from now on.
    pub(crate) fn begin(&self) {
        // What the one before was not told any more is seen by asking.
        pin!(self.changed.notified()).enable();
    }

    /// Waits for the next change. One that came since the last call counts.
    pub(crate) async fn changed(&self) {
        self.changed.notified().await;
    }
}

impl Drop for WakeUp {
    fn drop(&mut self) {
        let mut waiters = self.notifications.waiters.lock();
        if let Some(waited) = waiters.get_mut(&self.key) {
            waited.watchers -= 1;
            if waited.watchers == 0 {
                waiters.remove(&self.key);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use lock_core::Namespace;

    #[test]
    fn a_watcher_that_goes_leaves_nothing_and_takes_nobody_along() {
        let notifications = Arc::new(Notifications::new(Keys::new(&Namespace::none())));
        let first = notifications.watch(b"k".to_vec());
        let second = notifications.watch(b"k".to_vec());
        drop(first);
        assert_eq!(
            notifications.waiters.lock().len(),
            1,
            "the second one went along"
        );
        drop(second);
        assert!(
            notifications.waiters.lock().is_empty(),
            "a key stays for ever"
        );
    }
}
