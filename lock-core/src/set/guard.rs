//! The guard of a set.

use std::fmt;
use std::future::pending;
use std::time::Duration;

use futures_util::future::{join_all, select_all};

use crate::backend::Released;
use crate::{FencingToken, HoldWatch, LockGuard, LockKey, LossReason, Result};

/// The guard of several locks, taken together: all of them, or none.
///
/// The loss of one lock is the loss of the set. Dropping the set releases all locks in the
/// background.
///
/// ```
/// use lock_core::{DistributedLockExt, MemoryLock};
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> lock_core::Result<()> {
/// let locks = MemoryLock::new();
/// let set = locks.lock_all(["user/7", "coupon/42"]).await?;
/// assert!(set.is_held());
/// for (key, token) in set.tokens() {
///     println!("{key}: write with token {token}");
/// }
/// set.release().await?;
/// # Ok(())
/// # }
/// ```
#[must_use = "dropping the set releases its locks"]
pub struct LockSet {
    /// In the order of their keys.
    guards: Vec<LockGuard>,
}

impl LockSet {
    /// `guards` are in the order of their keys.
    pub(super) fn new(guards: Vec<LockGuard>) -> Self {
        Self { guards }
    }

    /// Returns a view of each hold, in the order of the keys.
    pub(crate) fn watches(&self) -> Vec<HoldWatch> {
        self.guards.iter().map(LockGuard::watch).collect()
    }

    /// Returns the keys, in their order.
    pub fn keys(&self) -> impl Iterator<Item = &LockKey> {
        self.guards.iter().map(LockGuard::key)
    }

    /// Returns each key with its fencing token, in the order of the keys.
    pub fn tokens(&self) -> impl Iterator<Item = (&LockKey, FencingToken)> {
        self.guards.iter().map(|guard| (guard.key(), guard.token()))
    }

    /// Returns the fencing token of `key`; `None` if the key is not in the set.
    pub fn token(&self, key: &str) -> Option<FencingToken> {
        let of_key = |guard: &&LockGuard| guard.key().as_str() == key;
        self.guards.iter().find(of_key).map(LockGuard::token)
    }

    /// Returns true if all locks are held at this moment.
    ///
    /// Reads the local clock, not the stores. A set without keys is always held.
    pub fn is_held(&self) -> bool {
        self.guards.iter().all(LockGuard::is_held)
    }

    /// Returns the time until the first lock expires without another renewal; zero once one is
    /// lost. Without keys: [`Duration::MAX`].
    pub fn remaining(&self) -> Duration {
        let times = self.guards.iter().map(LockGuard::remaining);
        times.min().unwrap_or(Duration::MAX)
    }

    /// Waits until one of the locks is lost, and returns its key and the reason. Without keys: for
    /// ever.
    ///
    /// If renewals fail, this future resolves before another client can get that lock
    /// ([exceptions](crate::DistributedLock#contract)).
    ///
    /// # Cancel safety
    ///
    /// Cancel safe. Any number of callers may wait.
    pub async fn lost(&self) -> (&LockKey, LossReason) {
        first_loss(&self.guards).await
    }

    /// Releases all locks at the same time, and waits for the stores' answers.
    ///
    /// Returns [`Released::AlreadyLost`], not an error, if one of the locks was lost before.
    ///
    /// # Errors
    ///
    /// The error of the first release that a store did not answer. That release is then repeated in
    /// the background.
    ///
    /// # Cancel safety
    ///
    /// Dropping the future does not stop the releases, which go on in the background.
    pub async fn release(self) -> Result<Released> {
        let releases = self.guards.into_iter().map(LockGuard::release);
        let mut outcome = Ok(Released::Released);
        for released in join_all(releases).await {
            match (released, &outcome) {
                (Err(error), Ok(_)) => outcome = Err(error),
                (Ok(Released::AlreadyLost), Ok(_)) => outcome = Ok(Released::AlreadyLost),
                _ => {}
            }
        }
        outcome
    }
}

impl fmt::Debug for LockSet {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("LockSet").field(&self.guards).finish()
    }
}

/// Waits until one of `guards` is lost; for ever if there is none.
pub(super) async fn first_loss(guards: &[LockGuard]) -> (&LockKey, LossReason) {
    if guards.is_empty() {
        return pending().await;
    }
    let losses = guards.iter().map(|guard| Box::pin(guard.lost()));
    let (reason, index, _) = select_all(losses).await;
    (guards[index].key(), reason)
}
