//! Locks whose use is recorded.

use std::sync::Mutex;
use std::sync::PoisonError;
use std::time::Duration;

use lock_core::backend::Released;
use lock_core::{DistributedLock, LockGuard, LockRequest, LossReason, Result};

use super::event::Happening;
use super::recorder::Recorder;

/// Minimum time between two records that a guard is held, in nanoseconds.
const HELD_EVERY: u64 = 50_000_000;

impl Recorder {
    /// Acquires a lock of `locks`, and records the outcome.
    ///
    /// # Errors
    ///
    /// The errors of `locks`.
    ///
    /// # Cancel safety
    ///
    /// Like `locks`. A dropped future is recorded.
    pub async fn acquire<L>(&self, locks: &L, request: LockRequest) -> Result<Option<RecordedGuard>>
    where
        L: DistributedLock + ?Sized,
    {
        let claim = Asked {
            claim: self.invoke(&request),
            recorder: self,
            is_answered: false,
        };
        match locks.acquire(request).await {
            Ok(Some(guard)) => Ok(Some(claim.granted(guard))),
            Ok(None) => {
                claim.answered(|claim| Happening::Refuse { claim });
                Ok(None)
            }
            Err(error) => {
                let reason = error.to_string();
                claim.answered(|claim| Happening::Fail { claim, reason });
                Err(error)
            }
        }
    }
}

/// A claim without an answer.
struct Asked<'a> {
    recorder: &'a Recorder,
    claim: u64,
    is_answered: bool,
}

impl Asked<'_> {
    fn answered(mut self, what: impl FnOnce(u64) -> Happening) {
        self.is_answered = true;
        self.recorder.own(Recorder::now(), what(self.claim));
    }

    fn granted(self, guard: LockGuard) -> RecordedGuard {
        let (recorder, claim) = (self.recorder.clone(), self.claim);
        let token = guard.token().value();
        let written_at = Recorder::now();
        self.answered(|claim| Happening::Grant { claim, token });
        RecordedGuard {
            guard: Some(guard),
            recorder,
            claim,
            seen: Mutex::new(Seen {
                held_at: None,
                written_at,
                is_lost: false,
            }),
        }
    }
}

impl Drop for Asked<'_> {
    fn drop(&mut self) {
        if !self.is_answered {
            let claim = self.claim;
            self.recorder
                .own(Recorder::now(), Happening::Cancel { claim });
        }
    }
}

/// A guard whose use is recorded; the [module](crate::history) has an example.
///
/// Dropping it releases the lock, like [`LockGuard`].
#[derive(Debug)]
#[must_use = "dropping a guard releases its lock"]
pub struct RecordedGuard {
    guard: Option<LockGuard>,
    recorder: Recorder,
    claim: u64,
    seen: Mutex<Seen>,
}

/// The answers of the guard so far.
#[derive(Debug)]
struct Seen {
    held_at: Option<u64>,
    written_at: u64,
    is_lost: bool,
}

impl RecordedGuard {
    /// Returns the recorded guard.
    pub fn guard(&self) -> &LockGuard {
        self.guard
            .as_ref()
            .expect("it is there until it is released")
    }

    /// Returns true if the lock is held, and records a positive answer from time to time.
    pub fn is_held(&self) -> bool {
        let before = Recorder::now();
        let is_held = self.guard().is_held();
        let mut seen = self.seen.lock().unwrap_or_else(PoisonError::into_inner);
        if is_held {
            seen.held_at = Some(before);
            if seen.written_at + HELD_EVERY < before {
                seen.written_at = before;
                let claim = self.claim;
                self.recorder.own(before, Happening::Held { claim });
            }
        }
        is_held
    }

    /// Waits until the lock is lost, and records the loss.
    ///
    /// # Cancel safety
    ///
    /// Cancel safe, and any number of callers may wait.
    pub async fn lost(&self) -> LossReason {
        let reason = self.guard().lost().await;
        self.note_loss(&reason.to_string());
        reason
    }

    /// Records that the lock is lost, once.
    pub fn note_loss(&self, reason: &str) {
        let mut seen = self.seen.lock().unwrap_or_else(PoisonError::into_inner);
        if !seen.is_lost {
            seen.is_lost = true;
            let what = Happening::Loss {
                claim: self.claim,
                held_at: seen.held_at,
                reason: reason.to_owned(),
            };
            self.recorder.own(Recorder::now(), what);
        }
    }

    /// Holds the lock for `duration`; returns true if the lock was held all the time.
    ///
    /// Checks the guard every 20 ms, and returns as soon as the lock is lost.
    ///
    /// # Cancel safety
    ///
    /// Cancel safe: it only waits.
    pub async fn hold_for(&self, duration: Duration) -> bool {
        let end = tokio::time::Instant::now() + duration;
        loop {
            if !self.is_held() {
                self.note_loss(&self.guard().lost().await.to_string());
                return false;
            }
            let left = end.saturating_duration_since(tokio::time::Instant::now());
            if left.is_zero() {
                return true;
            }
            tokio::select! {
                _reason = self.lost() => return false,
                () = tokio::time::sleep(left.min(Duration::from_millis(20))) => {}
            }
        }
    }

    /// Records the release, and releases the lock.
    ///
    /// # Errors
    ///
    /// Like [`LockGuard::release`].
    ///
    /// # Cancel safety
    ///
    /// Like [`LockGuard::release`].
    pub async fn release(mut self) -> Result<Released> {
        self.note_release();
        let guard = self.guard.take().expect("it is released once");
        guard.release().await
    }

    fn note_release(&self) {
        let seen = self.seen.lock().unwrap_or_else(PoisonError::into_inner);
        if !seen.is_lost {
            let (claim, held_at) = (self.claim, seen.held_at);
            self.recorder
                .own(Recorder::now(), Happening::Release { claim, held_at });
        }
    }
}

impl Drop for RecordedGuard {
    fn drop(&mut self) {
        if self.guard.is_some() {
            self.note_release();
        }
    }
}
