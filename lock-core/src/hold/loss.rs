//! The end of a hold that its holder did not ask for.

use std::fmt;
use std::sync::Weak;
use std::time::Duration;

use crate::Moment;
use crate::hold::Hold;

/// Why a hold ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum LossReason {
    /// It could not be renewed in time. Told before anyone else can get in.
    Expired,
    /// It was removed on the store: deleted, flushed, evicted, failed over, its session killed.
    /// Nobody can know that beforehand, so someone else may have got in already; the fencing
    /// token tells the two apart.
    Removed,
    /// The guard was released or dropped. Only a [`HoldWatch`](crate::HoldWatch) that outlives
    /// the guard is told so.
    Released,
    /// It was held for as long as its request [allowed](crate::LockRequest::max_hold). It is given back
    /// at once, or after its [lock delay](crate::LockRequest::lock_delay).
    TooLong,
    /// Its client was [shut down](crate::DistributedLock::shutdown), which gives the key back.
    Closed,
}

impl fmt::Display for LossReason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Expired => "it could not be renewed in time",
            Self::Removed => "it was removed on the store",
            Self::Released => "it was released",
            Self::TooLong => "it was held for as long as its request allowed",
            Self::Closed => "its client was shut down",
        })
    }
}

/// By this a backend reports what it learned by itself: that a session has ended, or is shorter from now on.
#[derive(Clone, Debug)]
pub struct LossSender {
    hold: Weak<Hold>,
}

impl LossSender {
    pub(crate) fn new(hold: Weak<Hold>) -> Self {
        Self { hold }
    }

    /// Returns true if the hold has ended, by whatever, with its lock delay, or will never begin: nobody needs what is
    /// left of it on the store. A backend whose store keeps things alive by itself gives it back then, since
    /// its guard may never do.
    pub fn is_over(&self) -> bool {
        self.hold.upgrade().is_none_or(|hold| hold.is_over())
    }

    /// Bounds the validity of the hold: the store may keep it for no longer than `ttl` from `since` on, lock
    /// delay included, whatever it has confirmed of requests that were sent before `since`. It is renewed soon,
    /// and what later requests bring counts in full.
    pub fn limit(&self, since: Moment, ttl: Duration) {
        if let Some(hold) = self.hold.upgrade() {
            hold.count_on_at_most(since, ttl);
        }
    }

    /// Declares the hold lost; does nothing when it has ended already.
    pub fn lost(&self, reason: LossReason) {
        if let Some(hold) = self.hold.upgrade() {
            hold.end(reason);
        }
    }
}
