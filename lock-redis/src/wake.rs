//! Who is told when a key of the server changes: its waiters, and the keeper if it is ours.

use std::collections::HashMap;
use std::pin::pin;
use std::sync::{Arc, Mutex, MutexGuard, OnceLock};

use lock_core::{Alarm, Clock, Moment};
use redis::{PushInfo, PushKind, Value};
use tokio::sync::Notify;

use crate::layout::Layout;
use crate::link::locked;
use crate::succession::{Step, Succession};

/// The waiters of one client, by the server's key.
///
/// The server tells a connection when a key was changed by another one, once after it was read there for
/// that (`CLIENT TRACKING`), also by a plain `DEL` of another client and by expiry. So a waiter first
/// enters here, then asks for the key on its command connection, and asks again after every wake-up. What is
/// changed on that connection itself we know: see [`releasing`](Self::releasing), and [`Succession`] for when it asks
/// without being told, or need not. A renewal reads the key on the background connection, so a hold that was renewed
/// once hears of its removal at once.
#[derive(Debug)]
pub(crate) struct Hub {
    layout: Layout,
    waiters: Mutex<HashMap<Vec<u8>, Waited>>,
    alarm: OnceLock<Alarm>,
}

/// A key that is waited for.
#[derive(Debug, Default)]
struct Waited {
    /// Wakes the first in line.
    changed: Arc<Notify>,
    watchers: usize,
    succession: Succession,
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

    /// Enters a waiter for `key`, who may have to stand in line first.
    pub(crate) fn watch(self: &Arc<Self>, key: Vec<u8>) -> Watcher {
        let mut waiters = self.lock_waiters();
        let waited = waiters.entry(key.clone()).or_default();
        waited.watchers += 1;
        Watcher {
            hub: Arc::clone(self),
            key,
            changed: Arc::clone(&waited.changed),
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

    /// Has the waiter for `key`, which we are about to give back, woken by what becomes of the outcome.
    pub(crate) fn releasing(&self, key: Vec<u8>) -> Releasing<'_> {
        Releasing {
            hub: self,
            key,
            is_followed: false,
        }
    }

    fn wake_all(&self) {
        let now = Clock::Boot.now();
        for waited in self.lock_waiters().values_mut() {
            waited.changed_by_others(now);
        }
    }

    fn wake(&self, key: &[u8]) {
        if let Some(waited) = self.lock_waiters().get_mut(key) {
            waited.changed_by_others(Clock::Boot.now());
        }
    }

    fn lock_waiters(&self) -> MutexGuard<'_, HashMap<Vec<u8>, Waited>> {
        locked(&self.waiters)
    }
}

impl Waited {
    fn changed_by_others(&mut self, now: Moment) {
        self.succession.others_came(now);
        self.changed.notify_one();
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

/// Wakes the waiter for a key when it is dropped: when we have given the key back, or may have.
#[derive(Debug)]
pub(crate) struct Releasing<'a> {
    hub: &'a Hub,
    key: Vec<u8>,
    is_followed: bool,
}

impl Releasing<'_> {
    /// Has the waiter ask right behind what has been sent, if it is its turn to.
    pub(crate) fn sent(&mut self) {
        if let Some(waited) = self.hub.lock_waiters().get_mut(&self.key)
            && waited.succession.release_sent(Clock::Boot.now())
        {
            self.is_followed = true;
            waited.changed.notify_one();
        }
    }
}

impl Drop for Releasing<'_> {
    fn drop(&mut self) {
        if let Some(waited) = self.hub.lock_waiters().get_mut(&self.key) {
            if !self.is_followed {
                waited.succession.release_ended();
            }
            waited.changed.notify_one();
        }
    }
}

/// A waiter, in line or the first one; dropping it takes it out.
#[derive(Debug)]
pub(crate) struct Watcher {
    hub: Arc<Hub>,
    key: Vec<u8>,
    changed: Arc<Notify>,
}

impl Watcher {
    /// Becomes the one who is woken, from now on.
    pub(crate) fn begin(&self) {
        // What the one before was not told any more is seen by asking.
        pin!(self.changed.notified()).enable();
    }

    /// What to do now.
    pub(crate) fn step(&self) -> Step {
        let mut waiters = self.hub.lock_waiters();
        let waited = waiters.get_mut(&self.key);
        waited.map_or(Step::Ask, |waited| {
            waited.succession.step(Clock::Boot.now())
        })
    }

    /// Tells the one behind us in line that we have the key for us alone.
    pub(crate) fn granted(&self) {
        if let Some(waited) = self.hub.lock_waiters().get_mut(&self.key) {
            waited.succession.granted(Clock::Boot.now());
        }
    }

    /// Waits for the next change. One that came since the last call counts.
    pub(crate) async fn changed(&self) {
        self.changed.notified().await;
    }
}

impl Drop for Watcher {
    fn drop(&mut self) {
        let mut waiters = self.hub.lock_waiters();
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
        let hub = Arc::new(Hub::new(Layout::new(&Namespace::none())));
        let first = hub.watch(b"k".to_vec());
        let second = hub.watch(b"k".to_vec());
        drop(first);
        assert_eq!(hub.lock_waiters().len(), 1, "the second one went along");
        drop(second);
        assert!(hub.lock_waiters().is_empty(), "a key stays for ever");
    }
}
