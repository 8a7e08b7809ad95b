//! The guard of several locks that were taken by a blocking call.

use std::fmt;
use std::time::Duration;

use super::runtime::CallRuntime;
use crate::backend::Released;
use crate::{FencingToken, LockKey, LossReason, Result};

/// The guard of several locks, like the async [`LockSet`](crate::LockSet): all of them, or none.
///
/// The loss of one lock is the loss of the set. Dropping the set releases all locks in the
/// background, also when its thread panics.
///
/// ```
/// use std::sync::Arc;
/// use lock_core::MemoryLock;
/// use lock_core::blocking::Client;
///
/// # fn main() -> lock_core::Result<()> {
/// let locks = Client::new(Arc::new(MemoryLock::new()))?;
/// let set = locks.lock_all(["user/7", "coupon/42"])?;
/// assert!(set.is_held());
/// for (key, token) in set.tokens() {
///     println!("{key}: write with token {token}");
/// }
/// set.release()?;
/// # Ok(())
/// # }
/// ```
#[must_use = "dropping the set releases its locks"]
pub struct LockSet {
    set: crate::LockSet,
    runtime: CallRuntime,
}

impl LockSet {
    pub(super) fn new(set: crate::LockSet, runtime: CallRuntime) -> Self {
        Self { set, runtime }
    }

    /// Returns the keys, in their order.
    pub fn keys(&self) -> impl Iterator<Item = &LockKey> {
        self.set.keys()
    }

    /// Returns each key with its fencing token, in the order of the keys.
    pub fn tokens(&self) -> impl Iterator<Item = (&LockKey, FencingToken)> {
        self.set.tokens()
    }

    /// Returns the fencing token of `key`; `None` if the key is not in the set.
    pub fn token(&self, key: &str) -> Option<FencingToken> {
        self.set.token(key)
    }

    /// Returns true if all locks are held at this moment.
    ///
    /// Reads the local clock, not the stores. A set without keys is always held.
    pub fn is_held(&self) -> bool {
        self.set.is_held()
    }

    /// Returns the time until the first lock expires without another renewal; zero once one is
    /// lost. Without keys: [`Duration::MAX`].
    pub fn remaining(&self) -> Duration {
        self.set.remaining()
    }

    /// Blocks until one of the locks is lost, and returns its key and the reason. Without keys: for
    /// ever.
    ///
    /// If renewals fail, the call returns before another client can get that lock
    /// ([exceptions](crate::DistributedLock#contract)). Any number of threads may wait.
    pub fn wait_lost(&self) -> (&LockKey, LossReason) {
        loop {
            if let Some(lost) = self.wait_lost_within(Duration::MAX) {
                return lost;
            }
        }
    }

    /// Blocks until one of the locks is lost, at most `limit`; returns its key and the reason, or
    /// `None` if all are still held.
    pub fn wait_lost_within(&self, limit: Duration) -> Option<(&LockKey, LossReason)> {
        let (index, reason) = self.runtime.wait_lost(&self.set.watches(), limit)?;
        Some((self.keys().nth(index)?, reason))
    }

    /// Releases all locks at the same time, and blocks until the stores have answered.
    ///
    /// Returns [`Released::AlreadyLost`], not an error, if one of the locks was lost before.
    ///
    /// # Errors
    ///
    /// - The error of the first release that a store did not answer. That release is then repeated
    ///   in the background.
    /// - [`Config`](crate::ErrorKind::Config) in a process forked since. It releases nothing.
    pub fn release(self) -> Result<Released> {
        let Self { set, runtime } = self;
        runtime.run(set.release())
    }
}

impl fmt::Debug for LockSet {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(&self.set, f)
    }
}
