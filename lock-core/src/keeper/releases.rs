//! The releases of a client that are under way, key by key.

use std::collections::HashMap;
use std::sync::Arc;

use tokio::sync::Notify;

use crate::backend::HoldId;
use crate::mutex::Mutex;
use crate::{LockKey, Mode};

/// Tells tries which keys their own client is about to free.
#[derive(Debug, Default)]
pub(crate) struct Releases(Mutex<HashMap<LockKey, OfKey>>);

#[derive(Debug, Default)]
struct OfKey {
    shared: usize,
    others: usize,
    /// Told when one of the two has become zero; there once a try waits for that.
    changed: Option<Arc<Notify>>,
}

/// One release under way; dropping it says that it has ended, whatever came of it.
#[derive(Debug)]
pub(crate) struct OneRelease {
    releases: Arc<Releases>,
    key: LockKey,
    is_shared: bool,
}

impl Releases {
    pub(crate) fn begin(self: &Arc<Self>, id: &HoldId) -> OneRelease {
        let (key, is_shared) = (id.key().clone(), id.mode() == Mode::Shared);
        *self
            .0
            .lock()
            .entry(key.clone())
            .or_default()
            .count(is_shared) += 1;
        OneRelease {
            releases: Arc::clone(self),
            key,
            is_shared,
        }
    }

    /// Returns true if a release is under way that may be in the way of a claim for `key` in
    /// `mode`.
    pub(crate) fn may_free(&self, key: &LockKey, mode: Mode) -> bool {
        let releases = self.0.lock();
        releases.get(key).is_some_and(|of_key| of_key.blocks(mode))
    }

    /// Waits until there is none.
    pub(crate) async fn none_may_free(&self, key: &LockKey, mode: Mode) {
        loop {
            // Begins to listen before it lets others change anything.
            let changed = match self.0.lock().get_mut(key) {
                Some(of_key) if of_key.blocks(mode) => {
                    let changed = of_key.changed.get_or_insert_default();
                    Arc::clone(changed).notified_owned()
                }
                Some(_) | None => return,
            };
            changed.await;
        }
    }
}

impl OfKey {
    fn count(&mut self, is_shared: bool) -> &mut usize {
        if is_shared {
            &mut self.shared
        } else {
            &mut self.others
        }
    }

    /// Readers are in each other's way at no time.
    fn blocks(&self, mode: Mode) -> bool {
        self.others > 0 || (self.shared > 0 && mode != Mode::Shared)
    }
}

impl Drop for OneRelease {
    fn drop(&mut self) {
        let mut releases = self.releases.0.lock();
        let Some(of_key) = releases.get_mut(&self.key) else {
            return;
        };
        *of_key.count(self.is_shared) -= 1;
        if *of_key.count(self.is_shared) == 0
            && let Some(changed) = &of_key.changed
        {
            changed.notify_waiters();
        }
        if of_key.shared + of_key.others == 0 {
            releases.remove(&self.key);
        }
    }
}
