//! By this a backend says that something happened to a key, without knowing what.

use std::fmt;
use std::sync::{Arc, Weak};

use crate::hold::Hold;
use crate::keeper::KeeperInner;
use crate::{Keeper, LockKey, Mode};

/// Has the keeper ask at once whether holds are still there, for stores that tell when a key
/// changes: so a removal is noticed long before the next renewal.
#[derive(Clone)]
pub struct Alarm {
    keeper: Weak<KeeperInner>,
}

impl Keeper {
    /// The alarm of this client's holds. It does not keep the client alive.
    pub fn alarm(&self) -> Alarm {
        Alarm {
            keeper: Arc::downgrade(&self.0),
        }
    }
}

impl Alarm {
    /// Renews the exclusive hold of `key` at once, if this client has it and has renewed it before:
    /// what is told of a fresh hold is nearly always its own take. Keys that are held together change
    /// whenever somebody comes or goes, so those holds wait for their next renewal.
    pub fn changed(&self, key: &LockKey) {
        let is_settled = |hold: &Hold| hold.id.mode() == Mode::Exclusive && hold.was_renewed();
        self.renew_now(|hold| hold.id.key() == key && is_settled(hold));
    }

    /// Renews every hold of this client at once, because any key may have changed.
    pub fn all_changed(&self) {
        self.renew_now(|_| true);
    }

    fn renew_now(&self, is_meant: impl Fn(&Hold) -> bool) {
        let Some(keeper) = self.keeper.upgrade() else {
            return;
        };
        let now = keeper.clock.now();
        for hold in keeper.holds(is_meant) {
            hold.doubt();
            hold.attend_at(now);
        }
    }
}

impl fmt::Debug for Alarm {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Alarm").finish_non_exhaustive()
    }
}
