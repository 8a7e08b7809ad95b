//! By this a backend says that something happened to a key, without knowing what.

use std::fmt;
use std::sync::{Arc, Weak};

use crate::backend::Keeper;
use crate::hold::Hold;
use crate::keeper::inner::KeeperInner;
use crate::{LockKey, Mode};

/// Has the keeper ask soon whether holds are still there, for stores that tell when a key changes:
/// so a removal is noticed long before the next renewal.
///
/// A hold is asked for at once, but not again within a thirtieth of its ttl (10 milliseconds to 1
/// second) after its last renewal, however often its key changes.
#[derive(Clone)]
pub struct RecheckHandle {
    keeper: Weak<KeeperInner>,
}

impl Keeper {
    /// Returns what has this client's holds asked about again. It does not keep the client alive.
    pub fn recheck_handle(&self) -> RecheckHandle {
        RecheckHandle {
            keeper: Arc::downgrade(&self.inner),
        }
    }
}

impl RecheckHandle {
    /// Renews the exclusive hold of `key` soon, if this client has it and has begun to renew it:
    /// what is told of a fresh hold is nearly always its own take. Keys that are held together
    /// change whenever a holder comes or goes, so those holds wait for their next renewal.
    pub fn changed(&self, key: &LockKey) {
        let Some(keeper) = self.keeper.upgrade() else {
            return;
        };
        let was_renewed =
            |hold: &Arc<Hold>| hold.id.mode() == Mode::Exclusive && hold.was_renewed();
        keeper
            .registry
            .of(key)
            .iter()
            .filter(|hold| was_renewed(hold))
            .for_each(Hold::recheck);
    }

    /// Renews every hold of this client soon, because any key may have changed.
    pub fn all_changed(&self) {
        if let Some(keeper) = self.keeper.upgrade() {
            keeper.registry.all().iter().for_each(Hold::recheck);
        }
    }
}

impl fmt::Debug for RecheckHandle {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RecheckHandle").finish_non_exhaustive()
    }
}
