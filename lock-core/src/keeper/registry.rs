//! Every hold that a client has.

use std::collections::BTreeMap;
use std::ops::Bound;
use std::sync::Arc;

use crate::LockKey;
use crate::backend::ClaimId;
use crate::hold::Hold;
use crate::mutex::Mutex;

/// The holds of a client, from their grant until their end is told.
///
/// The schedule does not list them all: a hold that the task attends to is taken out for a moment.
#[derive(Debug, Default)]
pub(crate) struct HoldRegistry {
    holds: Mutex<BTreeMap<(LockKey, ClaimId), Arc<Hold>>>,
}

impl HoldRegistry {
    pub(crate) fn enter(&self, hold: &Arc<Hold>) {
        self.holds.lock().insert(name(hold), Arc::clone(hold));
    }

    /// Returns what has left, if it was there.
    pub(crate) fn leave(&self, hold: &Hold) -> Option<Arc<Hold>> {
        self.holds.lock().remove(&name(hold))
    }

    pub(crate) fn all(&self) -> Vec<Arc<Hold>> {
        self.holds.lock().values().cloned().collect()
    }

    /// The holds of one key.
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
