//! The reason why a hold ended.

use std::fmt;

/// The reason why a hold ended.
///
/// ```
/// use lock_core::{DistributedLockExt, LossReason, MemoryLock};
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> lock_core::Result<()> {
/// let guard = MemoryLock::new().lock("import").await?;
/// let watch = guard.watch();
/// drop(guard);
/// assert_eq!(watch.lost().await, LossReason::Released);
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum LossReason {
    /// The hold was not renewed in time. The guard learns of it before another client can get the
    /// lock.
    Expired,
    /// The claim was removed on the store: deleted, flushed, evicted, failed over, session killed.
    /// No client can foresee a removal, so another client may already hold the lock; the fencing
    /// token tells the two apart.
    Removed,
    /// The guard was released or dropped. Only a [`HoldWatch`](crate::HoldWatch) that outlives the
    /// guard sees this reason.
    Released,
    /// The hold reached its request's [maximum](crate::LockRequest::max_hold). The lock is released
    /// at once, or after its [lock delay](crate::LockRequest::lock_delay).
    TooLong,
    /// The client was [shut down](crate::DistributedLock::shutdown), which releases the lock.
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
