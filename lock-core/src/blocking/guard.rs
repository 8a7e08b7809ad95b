//! The guard of a lock that was taken by a blocking call.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use super::runtime::CallRuntime;
use crate::api::with_lock;
use crate::backend::Released;
use crate::mutex::Mutex;
use crate::{Error, FencingToken, HoldState, HoldWatch, LockKey, LossReason, Mode, Result};

/// A held lock, like the async [`LockGuard`](crate::LockGuard): valid until it is released, dropped
/// or lost.
///
/// Renewal is automatic, whatever the thread of the guard does, and goes on after the client was
/// dropped. No lock service can stop a thread that works through its own loss. So check
/// [`is_held`](Self::is_held) before each step, and send [`token`](Self::token) with every write.
///
/// Dropping the guard releases in the background, also when its thread panics.
/// [`release`](Self::release) waits for it. A guard can be sent to other threads and shared.
///
/// ```
/// use std::sync::Arc;
/// use lock_core::MemoryLock;
/// use lock_core::blocking::Client;
///
/// # fn main() -> lock_core::Result<()> {
/// # fn load(_file: &str, _token: lock_core::FencingToken) {}
/// let guard = Client::new(Arc::new(MemoryLock::new()))?.lock("import")?;
/// for file in ["a.csv", "b.csv"] {
///     if !guard.is_held() {
///         break;
///     }
///     load(file, guard.token());
/// }
/// guard.release()?;
/// # Ok(())
/// # }
/// ```
#[must_use = "dropping a guard releases its lock"]
#[clippy::has_significant_drop]
pub struct LockGuard {
    guard: crate::LockGuard,
    runtime: CallRuntime,
}

impl LockGuard {
    pub(super) fn new(guard: crate::LockGuard, runtime: CallRuntime) -> Self {
        Self { guard, runtime }
    }

    /// Returns the locked key.
    pub fn key(&self) -> &LockKey {
        self.guard.key()
    }

    /// Returns the mode of the lock.
    pub fn mode(&self) -> Mode {
        self.guard.mode()
    }

    /// Returns the fencing token, which is greater for every later grant of this key.
    pub fn token(&self) -> FencingToken {
        self.guard.token()
    }

    /// Returns the slot of a permit: a number from 0 that no other held permit of this key has,
    /// below the `of` of its request. `None` in other modes, and on backends [without
    /// slots](crate::Capabilities::slots).
    pub fn slot(&self) -> Option<u32> {
        self.guard.slot()
    }

    /// Returns true if the lock is held at this moment.
    ///
    /// Reads the local clock, not the store: cheap enough to call before every step, and never
    /// blocks.
    pub fn is_held(&self) -> bool {
        self.guard.is_held()
    }

    /// Returns the time until the hold expires without another renewal; zero once it is lost.
    pub fn remaining(&self) -> Duration {
        self.guard.remaining()
    }

    /// Returns the state of the hold, by the local clock: held, renewal overdue, or lost.
    pub fn state(&self) -> HoldState {
        self.guard.state()
    }

    /// Returns a view of this hold that can be cloned and moved to other threads.
    pub fn watch(&self) -> HoldWatch {
        self.guard.watch()
    }

    /// Blocks until the lock is lost, and returns the reason.
    ///
    /// If renewals fail, the call returns before another client can get the lock
    /// ([exceptions](crate::DistributedLock#contract)). If the claim was removed on the store, it
    /// returns within a third of the ttl plus a round trip, and at once on backends with push. Any
    /// number of threads may wait.
    pub fn wait_lost(&self) -> LossReason {
        loop {
            if let Some(reason) = self.wait_lost_within(Duration::MAX) {
                return reason;
            }
        }
    }

    /// Blocks until the lock is lost, at most `limit`; returns the reason, or `None` if the lock is
    /// still held.
    pub fn wait_lost_within(&self, limit: Duration) -> Option<LossReason> {
        let lost = self.runtime.wait_lost(&[self.guard.watch()], limit);
        lost.map(|(_, reason)| reason)
    }

    /// Makes an exclusive or upgradeable hold shared, and blocks until the store has answered.
    ///
    /// Like [`LockGuard::downgrade`](crate::LockGuard::downgrade).
    ///
    /// # Errors
    ///
    /// The errors of that method, and [`Config`](crate::ErrorKind::Config) in a process forked
    /// since. The lock is released.
    pub fn downgrade(self) -> Result<Self> {
        let Self { guard, runtime } = self;
        let guard = runtime.run(guard.downgrade())?;
        Ok(Self { guard, runtime })
    }

    /// Makes an upgradeable hold exclusive unless readers hold the key, and blocks until the store
    /// has answered.
    ///
    /// Like [`LockGuard::try_upgrade`](crate::LockGuard::try_upgrade).
    ///
    /// # Errors
    ///
    /// The errors of that method, with the guard.
    pub fn try_upgrade(self) -> Result<Self, (Self, Error)> {
        let Self { guard, runtime } = self;
        // A call that fails before it runs leaves the guard there.
        let there = Arc::new(Mutex::new(Some(guard)));
        let guard = Arc::clone(&there);
        let upgrading = async move {
            let guard = guard.lock().take();
            let guard = guard.expect("the future runs once");
            Ok(guard.try_upgrade().await)
        };
        match runtime.run(upgrading) {
            Ok(Ok(guard)) => Ok(Self { guard, runtime }),
            Ok(Err((guard, error))) => Err((Self { guard, runtime }, error)),
            Err(error) => {
                let guard = there.lock().take();
                let guard = guard.expect("the call did not run");
                Err((Self { guard, runtime }, error))
            }
        }
    }

    /// Releases the lock, and blocks until the store has answered.
    ///
    /// Returns [`Released::AlreadyLost`], not an error, if the lock was lost before. The call does
    /// not wait for a [lock delay](crate::LockRequest::lock_delay) or the rest of a [minimum
    /// hold](crate::LockRequest::min_hold), during which the key stays closed.
    ///
    /// # Errors
    ///
    /// - [`Unavailable`](crate::ErrorKind::Unavailable) if the store did not answer. The release is
    ///   then repeated in the background, and the ttl ends the hold at the latest.
    /// - [`Config`](crate::ErrorKind::Config) in a process forked since. It releases nothing.
    pub fn release(self) -> Result<Released> {
        let Self { guard, runtime } = self;
        runtime.run(guard.release())
    }

    /// Runs `work` on the calling thread and releases the lock afterwards.
    ///
    /// # Errors
    ///
    /// [`Lost`](crate::ErrorKind::Lost) if the lock was lost before the work was done.
    pub(super) fn run<T>(self, work: impl FnOnce(HoldWatch) -> T) -> Result<T> {
        let output = work(self.watch());
        let Self { guard, runtime } = self;
        runtime.run(with_lock::finish(guard))?;
        Ok(output)
    }
}

impl fmt::Debug for LockGuard {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(&self.guard, f)
    }
}
