//! Why a hold ended.

use std::fmt;

/// Why a hold ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum LossReason {
    /// It could not be renewed in time. Told before anyone else can get in.
    Expired,
    /// It was removed on the store: deleted, flushed, evicted, failed over, its session killed.
    /// A removal cannot be known beforehand, so another client may have got in already; the fencing
    /// token tells the two apart.
    Removed,
    /// The guard was released or dropped. Only a [`HoldWatch`](crate::HoldWatch) that outlives
    /// the guard is told so.
    Released,
    /// It was held for as long as its request [allowed](crate::LockRequest::max_hold). It is given
    /// back at once, or after its [lock delay](crate::LockRequest::lock_delay).
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
