//! The guard that an application has while it holds a lock.

use std::fmt;
use std::future::Future;
use std::sync::Arc;
use std::time::Duration;

use tokio::runtime::Id;

use crate::backend::Released;
use crate::hold::validity::GuardGeneration;
use crate::hold::{Hold, Part};
use crate::keeper::at_runtime::RuntimeKeeper;
use crate::keeper::releases::OneRelease;
use crate::keeper::shutdown_gate::WorkGuard;
use crate::{FencingToken, HoldState, HoldWatch, LockKey, LossReason, Mode, Result};

/// A held lock: valid until it is released, dropped or lost.
///
/// Renewal is automatic. No lock service can stop a holder that sleeps through its own loss. So use
/// the guard in one of two ways, or better both:
///
/// - Stop working when [`lost`](Self::lost) resolves.
/// - Store [`token`](Self::token) in the resource before the first read, and send it with every
///   write, so that the resource can refuse an overtaken holder.
///
/// Dropping the guard releases in the background; [`release`](Self::release) waits for it.
///
/// ```
/// use lock_core::{DistributedLockExt, MemoryLock};
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> lock_core::Result<()> {
/// # async fn build_report(token: lock_core::FencingToken) {}
/// let guard = MemoryLock::new().lock("nightly-report").await?;
/// tokio::select! {
///     () = build_report(guard.token()) => {}
///     reason = guard.lost() => eprintln!("stopped: {reason}"),
/// }
/// guard.release().await?;
/// # Ok(())
/// # }
/// ```
#[must_use = "dropping a guard releases its lock"]
#[clippy::has_significant_drop]
pub struct LockGuard {
    hold: Arc<Hold>,
    keeper: Arc<RuntimeKeeper>,
    generation: GuardGeneration,
    token: FencingToken,
    successors: Option<Box<dyn Successors>>,
    released: bool,
    /// A release that a caller waits for.
    under_way: Option<Box<(WorkGuard, OneRelease)>>,
}

/// The waiters of this process to which a guard may hand its hold on.
pub(crate) trait Successors: Send + Sync {
    /// Hands `guard` on to the next waiter that may have the hold.
    fn hand_on(self: Box<Self>, guard: LockGuard) -> HandedOn;

    /// Notes that the guard has ended, although its release may take longer.
    fn guard_ended(&self);
}

/// The result of handing a guard on.
pub(crate) enum HandedOn {
    ToNext,
    /// The waiter was gone; the guard comes back with a new generation.
    Refused(LockGuard),
    /// No waiter may have the hold.
    ToNone(LockGuard),
}

impl LockGuard {
    pub(crate) fn new(hold: Arc<Hold>, keeper: Arc<RuntimeKeeper>, token: FencingToken) -> Self {
        Self {
            hold,
            keeper,
            generation: 0,
            token,
            successors: None,
            released: false,
            under_way: None,
        }
    }

    /// Makes a member guard of the shared hold of `whole`. The last member that ends releases it.
    pub(crate) fn part_of(
        whole: &Arc<Self>,
        token: FencingToken,
        max_hold: Option<Duration>,
    ) -> Self {
        let part: Part = Arc::<Self>::clone(whole);
        let hold = whole.hold.member(part, max_hold);
        Self::new(hold, Arc::clone(&whole.keeper), token)
    }

    /// Sets the waiters to which the guard is handed on at its release.
    pub(crate) fn with_successors(mut self, successors: Box<dyn Successors>) -> Self {
        self.successors = Some(successors);
        self
    }

    /// Runs `work` where the hold is renewed.
    pub(crate) fn spawn_on_keeper(&self, work: impl Future<Output = ()> + Send + 'static) {
        self.keeper.handle.spawn(work);
    }

    /// Returns the name of the backend.
    pub(crate) fn backend(&self) -> &'static str {
        self.keeper.client.capabilities.backend
    }

    pub(crate) fn keeper(&self) -> &Arc<RuntimeKeeper> {
        &self.keeper
    }

    /// Ends the guard of a hold that the store no longer has.
    pub(crate) fn forget(mut self) {
        self.end();
        self.released = true;
    }

    pub(crate) fn has_successors(&self) -> bool {
        self.successors.is_some()
    }

    /// Limits the hold to `max_hold` from now on.
    pub(crate) fn holding_at_most(self, max_hold: Option<Duration>) -> Self {
        self.hold.hold_at_most(max_hold);
        self
    }

    pub(crate) fn hold(&self) -> &Arc<Hold> {
        &self.hold
    }

    /// Returns true if the hold can move to a waiter on `runtime`. A hold that is kept on its
    /// caller's runtime cannot leave that runtime.
    pub(crate) fn can_be_kept_on(&self, runtime: Option<Id>) -> bool {
        let stays_anywhere = self.keeper.client.keeper_runtime.outlives_callers();
        stays_anywhere || runtime == Some(self.keeper.handle.id())
    }

    /// Returns true if the hold may be handed on: it is held and its token has a successor.
    pub(crate) fn may_be_handed_on(&self) -> bool {
        self.token.next_hand_off().is_some() && self.is_held()
    }

    /// Begins the next guard's turn, limited to `max_hold`; false if the hold was just lost.
    pub(crate) fn begin_next_turn(&mut self, max_hold: Option<Duration>) -> bool {
        let Some(token) = self.token.next_hand_off() else {
            return false;
        };
        let Some(generation) = self.hold.next_turn(max_hold) else {
            return false;
        };
        (self.token, self.generation) = (token, generation);
        true
    }

    /// Returns the locked key.
    pub fn key(&self) -> &LockKey {
        self.hold.id.key()
    }

    /// Returns the mode of the lock.
    pub fn mode(&self) -> Mode {
        self.hold.id.mode()
    }

    /// Returns the fencing token, which is greater for every later grant of this key.
    pub fn token(&self) -> FencingToken {
        self.token
    }

    /// Returns the slot of a permit: a number from 0 that no other held permit of this key has,
    /// below the `of` of its request. `None` in other modes, and on backends [without
    /// slots](crate::Capabilities::slots).
    ///
    /// For the numbers of workers, partitions or id generators. A permit that is granted later may
    /// have the slot of one that was lost, so the resource still has to compare tokens.
    pub fn slot(&self) -> Option<u32> {
        self.hold.slot()
    }

    /// Returns true if the lock is held at this moment.
    ///
    /// Reads the local clock, not the store: cheap enough to call before every step, and never
    /// blocks.
    pub fn is_held(&self) -> bool {
        self.hold.check(self.generation).is_ok()
    }

    /// Returns the time until the hold expires without another renewal; zero once it is lost.
    pub fn remaining(&self) -> Duration {
        self.hold.remaining()
    }

    /// Returns the state of the hold, by the local clock: held, renewal overdue, or lost.
    ///
    /// [`HoldWatch::states`] yields every change.
    pub fn state(&self) -> HoldState {
        self.watch().state()
    }

    /// Waits until the lock is lost and returns the reason.
    ///
    /// If renewals fail, this future resolves before another client can get the lock
    /// ([exceptions](crate::DistributedLock#contract)). If the claim
    /// was removed on the store, it resolves within a third of the ttl plus a round trip, and at
    /// once on backends with push.
    ///
    /// # Cancel safety
    ///
    /// Cancel safe. Any number of callers may wait.
    pub async fn lost(&self) -> LossReason {
        self.hold.ended(self.generation).await
    }

    /// Returns a view of this hold that can be cloned and moved into blocking work.
    pub fn watch(&self) -> HoldWatch {
        HoldWatch::new(Arc::clone(&self.hold), self.generation, self.token)
    }

    /// Releases the lock and waits for the store's answer.
    ///
    /// Returns [`Released::AlreadyLost`], not an error, if the lock was lost before. The key then
    /// stays closed for its [lock delay](crate::LockRequest::lock_delay); this call does not wait
    /// for the delay. Nor does it wait for the rest of a [minimum
    /// hold](crate::LockRequest::min_hold), during which the key stays closed. A lost guard that
    /// shared its grant, with readers or its owner, does not wait for the answer.
    ///
    /// # Errors
    ///
    /// [`Unavailable`](crate::ErrorKind::Unavailable) if the store did not answer. The release is
    /// then repeated in the background, and the ttl ends the hold at the latest.
    ///
    /// # Cancel safety
    ///
    /// Dropping the future does not stop the release, which goes on in the background.
    pub async fn release(self) -> Result<Released> {
        if self.hold.is_member() {
            self.release_part().await
        } else {
            self.release_whole().await
        }
    }

    /// Ends this member of a shared hold; the last member releases the hold.
    async fn release_part(mut self) -> Result<Released> {
        let part = self.hold.take_part();
        let was_held = self.end();
        self.released = true;
        let whole = part.and_then(|part| part.downcast::<Self>().ok());
        let outcome = match whole.and_then(Arc::into_inner) {
            // Boxed, since the whole may be a part itself.
            Some(whole) => Box::pin(whole.release()).await?,
            None => Released::Released,
        };
        Ok(if was_held {
            outcome
        } else {
            Released::AlreadyLost
        })
    }

    async fn release_whole(self) -> Result<Released> {
        let Some(mut guard) = self.hand_on() else {
            return Ok(Released::Released);
        };
        // Kept until the guard is dropped, because the drop repeats a release that got no answer.
        let client = Arc::clone(&guard.keeper.client);
        let of_key = client.releases.begin(&guard.hold.id);
        guard.under_way = Some(Box::new((client.gate.enter(), of_key)));
        let was_held = guard.end();
        if guard.hold.is_lost_and_kept() {
            guard.released = true;
            return Ok(Released::AlreadyLost);
        }
        let outcome = client.release(&guard.hold).await?;
        guard.released = true;
        Ok(if was_held {
            outcome
        } else {
            Released::AlreadyLost
        })
    }

    /// Hands the hold to the next waiter of this process, or returns the guard if no waiter may
    /// have it.
    fn hand_on(self) -> Option<Self> {
        let mut guard = self;
        while let Some(successors) = guard.successors.take() {
            match successors.hand_on(guard) {
                HandedOn::ToNext => return None,
                HandedOn::Refused(refused) => guard = refused,
                HandedOn::ToNone(guard) => return Some(guard),
            }
        }
        Some(guard)
    }

    /// Like [`hand_on`](Self::hand_on), for a guard in its `Drop`; false if the guard keeps the
    /// hold.
    fn hand_on_dropped(&mut self) -> bool {
        let Some(successors) = self.successors.take() else {
            return false;
        };
        let guard = Self {
            hold: Arc::clone(&self.hold),
            keeper: Arc::clone(&self.keeper),
            generation: self.generation,
            token: self.token,
            successors: Some(successors),
            released: false,
            under_way: None,
        };
        let Some(mut guard) = guard.hand_on() else {
            return true;
        };
        guard.released = true;
        (self.generation, self.token) = (guard.generation, guard.token);
        self.successors = guard.successors.take();
        false
    }

    /// Ends the hold locally; returns true if it was still held.
    pub(crate) fn end(&self) -> bool {
        if let Some(successors) = &self.successors {
            successors.guard_ended();
        }
        self.is_held() && self.hold.end(LossReason::Released)
    }
}

impl Drop for LockGuard {
    fn drop(&mut self) {
        if self.hold.is_member() {
            let part = self.hold.take_part();
            self.end();
            // After the end of this member, because dropping the last part releases the hold.
            drop(part);
        } else if !self.released && !self.hand_on_dropped() {
            // Created before the hold ends, so that a shutdown always sees the hold or its release.
            let releasing = self.keeper.client.releasing(&self.hold);
            self.end();
            let is_closed = self.hold.expire_if_due() == Err(LossReason::Closed);
            if is_closed || self.hold.is_lost_and_kept() {
                // The shutdown, or the task that handles the loss, releases the hold.
                releasing.confirmed();
            } else {
                let successors = self.successors.take();
                self.keeper
                    .release_in_background(&self.hold, releasing, successors);
            }
        }
    }
}

impl fmt::Debug for LockGuard {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("LockGuard")
            .field("key", self.key())
            .field("mode", &self.mode())
            .field("token", &self.token)
            .field("held", &self.is_held())
            .finish()
    }
}
