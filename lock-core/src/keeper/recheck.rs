//! Reports of a backend that a key has changed in an unknown way.

use std::fmt;
use std::sync::{Arc, Weak};

use crate::backend::Keeper;
use crate::hold::Hold;
use crate::keeper::inner::KeeperInner;
use crate::{LockKey, Mode};

/// Requests an early check of holds, for stores that report changes of a key.
///
/// The keeper then notices a removal long before the next renewal. It checks a hold at once, unless
/// its last renewal is less than a thirtieth of its ttl ago (10 ms to 1 s), even if its key keeps
/// changing.
///
/// ```
/// use lock_core::LockKey;
/// use lock_core::backend::RecheckHandle;
///
/// fn on_notification(holds: &RecheckHandle, changed: Option<&LockKey>) {
///     match changed {
///         Some(key) => holds.changed(key),
///         None => holds.all_changed(),
///     }
/// }
/// ```
#[derive(Clone)]
pub struct RecheckHandle {
    keeper: Weak<KeeperInner>,
}

impl Keeper {
    /// Returns a handle that requests checks of this client's holds, without keeping the client
    /// alive.
    pub fn recheck_handle(&self) -> RecheckHandle {
        RecheckHandle {
            keeper: Arc::downgrade(&self.inner),
        }
    }
}

impl RecheckHandle {
    /// Checks this client's exclusive hold of `key` soon, if a renewal of it was ever sent.
    ///
    /// Before the first renewal, a change is nearly always the hold's own take. A key with shared
    /// holders or permits changes with every holder, so those holds wait for their next renewal.
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

    /// Checks every hold of this client soon, because any key may have changed.
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
