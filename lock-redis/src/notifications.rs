//! Pushes of changed keys, which wake waiters and have the keeper check holds.

use std::collections::HashMap;
use std::pin::pin;
use std::sync::{Arc, OnceLock};

use lock_core::backend::{Mutex, RecheckHandle};
use redis::{PushInfo, PushKind, Value};
use tokio::sync::Notify;

use crate::keys::Keys;

/// The waiters of one client, by the server's key.
///
/// With `CLIENT TRACKING`, the server pushes a message to a connection when another connection
/// changes a key that was read on it, once per read. Deletions by any client and expiry count as
/// changes. So a waiter first registers here, then sends its take on the command connection, and
/// asks again after every wake-up. Releases on that connection are not pushed to it: see
/// [`releasing`](Self::releasing). A renewal reads the key on the background connection, so after
/// its first renewal the removal of a hold is pushed at once.
#[derive(Debug)]
pub(crate) struct Notifications {
    keys: Keys,
    waiters: Mutex<HashMap<Vec<u8>, Waited>>,
    recheck: OnceLock<RecheckHandle>,
}

/// The waiters of one key.
#[derive(Debug, Default)]
struct Waited {
    /// Wakes the first waiter of the queue.
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

    /// Sets the keeper's handle, which gets all changes from now on.
    pub(crate) fn set_recheck(&self, recheck: RecheckHandle) {
        // A client has one keeper, so this is set once.
        let _first = self.recheck.set(recheck);
    }

    /// Registers a waiter for `key`, which may first have to wait in the local queue.
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

    /// Handles a push on a command connection.
    pub(crate) fn on_command_push(&self, push: &PushInfo) {
        match changes(push) {
            Changes::Of(keys) => keys.for_each(|key| self.wake(key)),
            Changes::All => self.wake_all(),
            Changes::None => {}
        }
        if push.kind == PushKind::Disconnection {
            // Later changes are not pushed, so all waiters have to ask again.
            self.wake_all();
        }
    }

    /// Handles a push on the background connection.
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

    /// Has the keeper check all holds, whose changes are no longer pushed. The renewals open the
    /// next connection, which tracks the keys from then on.
    pub(crate) fn on_background_lost(&self) {
        if let Some(recheck) = self.recheck.get() {
            recheck.all_changed();
        }
    }

    /// Returns a value that wakes the waiter for `key` after this client's release of the key.
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

/// The changed keys of a push.
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

/// Wakes the waiter for a key when it is dropped: after a release, whatever its outcome.
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

/// A registered waiter. Dropping it removes the registration.
#[derive(Debug)]
pub(crate) struct WakeUp {
    notifications: Arc<Notifications>,
    key: Vec<u8>,
    changed: Arc<Notify>,
}

impl WakeUp {
    /// Starts to receive wake-ups, as the first waiter of the queue.
    pub(crate) fn begin(&self) {
        // A change before this call may be missed; the take that follows sees its effect.
        pin!(self.changed.notified()).enable();
    }

    /// Waits for the next change; a change since the last call counts.
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
