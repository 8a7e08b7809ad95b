//! A view of a hold that is independent of its guard.

use std::sync::Arc;
use std::time::Duration;

use crate::hold::Hold;
use crate::hold::validity::GuardGeneration;
use crate::{FencingToken, HoldState, HoldStates, LockKey, LossReason};

/// A view of a hold that can be cloned and moved anywhere, for example into blocking work.
///
/// It outlives the guard and does not keep the lock: once the guard is released or dropped, it
/// reports that the lock is not held.
///
/// ```
/// use lock_core::{DistributedLockExt, MemoryLock};
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let guard = MemoryLock::new().lock("import").await?;
/// let watch = guard.watch();
/// let rows = tokio::task::spawn_blocking(move || {
///     (0..1000).take_while(|_| watch.is_held()).count()
/// });
/// assert_eq!(rows.await?, 1000);
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Debug)]
pub struct HoldWatch {
    hold: Arc<Hold>,
    generation: GuardGeneration,
    token: FencingToken,
}

impl HoldWatch {
    pub(crate) fn new(hold: Arc<Hold>, generation: GuardGeneration, token: FencingToken) -> Self {
        Self {
            hold,
            generation,
            token,
        }
    }

    /// Returns the locked key.
    pub fn key(&self) -> &LockKey {
        self.hold.id.key()
    }

    /// Returns the guard's fencing token, which is greater for every later grant of this key.
    pub fn token(&self) -> FencingToken {
        self.token
    }

    /// Returns true if the lock is held at this moment, by the local clock.
    pub fn is_held(&self) -> bool {
        self.hold.check(self.generation).is_ok()
    }

    /// Returns the time until the hold expires without another renewal; zero if it is not held.
    pub fn remaining(&self) -> Duration {
        if self.is_held() {
            self.hold.remaining()
        } else {
            Duration::ZERO
        }
    }

    /// Returns the state of the hold, by the local clock: held, renewal overdue, or lost.
    pub fn state(&self) -> HoldState {
        self.hold.state_in(self.generation).0
    }

    /// Returns a stream of the present state and each change, until the hold is lost.
    pub fn states(&self) -> HoldStates {
        HoldStates::new(Arc::clone(&self.hold), self.generation)
    }

    /// Waits until the lock is no longer held and returns the reason.
    ///
    /// # Cancel safety
    ///
    /// Cancel safe. Any number of callers may wait.
    pub async fn lost(&self) -> LossReason {
        self.hold.ended(self.generation).await
    }
}
