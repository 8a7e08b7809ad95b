//! A look at a hold from anywhere.

use std::sync::Arc;
use std::time::Duration;

use crate::hold::Hold;
use crate::hold::validity::GuardGeneration;
use crate::{FencingToken, HoldState, HoldStates, LockKey, LossReason};

/// A view of a hold that can be cloned and sent anywhere, also into blocking work.
///
/// It outlives the guard and never keeps the lock: once the guard is released or dropped it says
/// that the lock is not held any more.
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

    /// The locked resource.
    pub fn key(&self) -> &LockKey {
        self.hold.id.key()
    }

    /// The fencing token of the guard: greater for every later grant of this key.
    pub fn token(&self) -> FencingToken {
        self.token
    }

    /// Returns true if the lock is held at this very moment, by the local clock alone.
    pub fn is_held(&self) -> bool {
        self.hold.check(self.generation).is_ok()
    }

    /// Returns how long it stays held without another renewal; zero when it is not held.
    pub fn remaining(&self) -> Duration {
        if self.is_held() {
            self.hold.remaining()
        } else {
            Duration::ZERO
        }
    }

    /// Returns the state of the hold at this moment, by the local clock alone: held, held with a
    /// renewal that is overdue, or lost.
    pub fn state(&self) -> HoldState {
        self.hold.state_in(self.generation).0
    }

    /// Returns the state of the hold now, and then each change, until the hold is lost.
    pub fn states(&self) -> HoldStates {
        HoldStates::new(Arc::clone(&self.hold), self.generation)
    }

    /// Waits until the lock is not held any more, and says why.
    ///
    /// # Cancel safety
    ///
    /// Cancel safe, and any number of callers may wait.
    pub async fn lost(&self) -> LossReason {
        self.hold.ended(self.generation).await
    }
}
