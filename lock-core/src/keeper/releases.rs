//! The pending releases of a client, per key.

use std::collections::HashMap;
use std::sync::Arc;

use tokio::sync::Notify;

use crate::backend::HoldId;
use crate::mutex::Mutex;
use crate::{LockKey, Mode};

/// The pending releases of a client, per key. A request that does not wait starts after them.
#[derive(Debug, Default)]
pub(crate) struct Releases(Mutex<HashMap<LockKey, OfKey>>);

#[derive(Debug, Default)]
struct OfKey {
    shared: usize,
    others: usize,
    /// Notified when either count becomes zero; created by the first try that waits.
    changed: Option<Arc<Notify>>,
}

/// One pending release, until this value is dropped.
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

    /// Returns true if a pending release may block a claim for `key` in `mode`.
    pub(crate) fn may_free(&self, key: &LockKey, mode: Mode) -> bool {
        let releases = self.0.lock();
        releases.get(key).is_some_and(|of_key| of_key.blocks(mode))
    }

    /// Waits until no pending release may block a claim for `key` in `mode`.
    pub(crate) async fn await_releases(&self, key: &LockKey, mode: Mode) {
        loop {
            // Register for notifications while the counts are locked, so that none is missed.
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

    /// Returns true if a pending release may block a claim in `mode`. Shared holds never block each
    /// other.
    fn blocks(&self, mode: Mode) -> bool {
        self.others > 0 || (self.shared > 0 && mode.conflicts_with(Mode::Shared))
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
