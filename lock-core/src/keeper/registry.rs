//! All holds of a client.

use std::collections::BTreeMap;
use std::ops::Bound;
use std::sync::Arc;

use crate::LockKey;
use crate::backend::ClaimId;
use crate::hold::Hold;
use crate::mutex::Mutex;

/// The holds of a client, from their grant until their end.
///
/// The schedule is not complete: the keeper task takes a hold out while it attends to it.
#[derive(Debug, Default)]
pub(crate) struct HoldRegistry {
    holds: Mutex<BTreeMap<(LockKey, ClaimId), Arc<Hold>>>,
}

impl HoldRegistry {
    pub(crate) fn enter(&self, hold: &Arc<Hold>) {
        self.holds.lock().insert(name(hold), Arc::clone(hold));
    }

    /// Removes `hold` and returns it, if it was registered.
    pub(crate) fn leave(&self, hold: &Hold) -> Option<Arc<Hold>> {
        self.holds.lock().remove(&name(hold))
    }

    pub(crate) fn all(&self) -> Vec<Arc<Hold>> {
        self.holds.lock().values().cloned().collect()
    }

    /// Returns the holds of one key.
    pub(crate) fn of(&self, key: &LockKey) -> Vec<Arc<Hold>> {
        let from = Bound::Included((key.clone(), ClaimId::FIRST));
        let holds = self.holds.lock();
        let later = holds.range((from, Bound::Unbounded));
        let meant = later.take_while(|((of, _), _)| of == key);
        meant.map(|(_, hold)| Arc::clone(hold)).collect()
    }
}

fn name(hold: &Hold) -> (LockKey, ClaimId) {
    (hold.id.key().clone(), hold.id.claim())
}
