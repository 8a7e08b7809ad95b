//! The term of a leader.

use std::fmt;
use std::ops::Deref;

use crate::backend::Released;
use crate::{LockGuard, LossReason, Result};

/// A term: the guard of a candidate that leads. Dropping it resigns in the background.
///
/// At no moment do two terms of one election both say that they are held.
#[must_use = "dropping a term resigns"]
pub struct Term(LockGuard);

impl Term {
    pub(super) fn new(guard: LockGuard) -> Self {
        Self(guard)
    }

    /// Returns the number of the term, which is greater for every later term: its fencing token as a
    /// number.
    pub fn number(&self) -> u64 {
        self.0.token().value()
    }

    /// Waits until the term is over, and returns the reason.
    ///
    /// # Cancel safety
    ///
    /// Cancel safe. Any number of callers may wait.
    pub async fn ended(&self) -> LossReason {
        self.0.lost().await
    }

    /// Ends the term, so that the next candidate leads at once, and waits for the store's answer.
    ///
    /// # Errors
    ///
    /// [`Unavailable`](crate::ErrorKind::Unavailable) if the store did not answer. The release is
    /// then repeated in the background, and the ttl ends the term at the latest.
    ///
    /// # Cancel safety
    ///
    /// Dropping the future does not stop the release, which goes on in the background.
    pub async fn resign(self) -> Result<Released> {
        self.0.release().await
    }
}

impl Deref for Term {
    type Target = LockGuard;

    fn deref(&self) -> &LockGuard {
        &self.0
    }
}

impl fmt::Debug for Term {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Term").field(&self.0).finish()
    }
}
