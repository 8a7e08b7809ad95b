//! Every hold that a client has, whoever is busy with it.

use std::collections::BTreeMap;
use std::ops::Bound;
use std::sync::{Arc, Mutex};

use crate::hold::Hold;
use crate::mutex::locked;
use crate::{LockKey, OwnerId};

/// The holds of a client, from their grant until their end is told.
///
/// The timetable is no such list: a hold that is being attended to stands in none for a moment.
#[derive(Debug, Default)]
pub(crate) struct HoldRegistry {
    holds: Mutex<BTreeMap<(LockKey, OwnerId), Arc<Hold>>>,
}

impl HoldRegistry {
    pub(crate) fn enter(&self, hold: &Arc<Hold>) {
        locked(&self.holds).insert(name(hold), Arc::clone(hold));
    }

    /// Returns what has left, if it was there.
    pub(crate) fn leave(&self, hold: &Hold) -> Option<Arc<Hold>> {
        locked(&self.holds).remove(&name(hold))
    }

    pub(crate) fn all(&self) -> Vec<Arc<Hold>> {
        locked(&self.holds).values().cloned().collect()
    }

    /// The holds of one key.
    pub(crate) fn of(&self, key: &LockKey) -> Vec<Arc<Hold>> {
        let from = Bound::Included((key.clone(), OwnerId::FIRST));
        let holds = locked(&self.holds);
        let later = holds.range((from, Bound::Unbounded));
        let meant = later.take_while(|((of, _), _)| of == key);
        meant.map(|(_, hold)| Arc::clone(hold)).collect()
    }
}

fn name(hold: &Hold) -> (LockKey, OwnerId) {
    (hold.id.key().clone(), hold.id.owner())
}
