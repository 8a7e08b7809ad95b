//! The guard that an application has while it holds a lock.

use std::fmt;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Waker};
use std::time::Duration;

use tokio::runtime::Handle;

use crate::hand_off::Place;
use crate::hold::Hold;
use crate::hold::validity::GuardGeneration;
use crate::keeper::releases::OneRelease;
use crate::keeper::shutdown_gate::{ReleaseGuard, WorkGuard};
use crate::{
    Backoff, FencingToken, HoldState, HoldWatch, LockKey, LossReason, Mode, Moment, Released,
    Result,
};

/// A held lock: valid until it is released, dropped or lost.
///
/// Renewal is automatic. Because no lock service can stop a holder that sleeps through its own
/// loss, use the guard in one of two ways, better both: stop working when [`lost`](Self::lost)
/// resolves, and send [`token`](Self::token) along with every write so that the resource can refuse
/// an overtaken holder.
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
    turn: GuardGeneration,
    token: FencingToken,
    /// Where the hold may be handed on to the next waiter of this process.
    place: Option<Place>,
    released: bool,
    /// A release that somebody waits for.
    under_way: Option<Box<(WorkGuard, OneRelease)>>,
}

impl LockGuard {
    pub(crate) fn new(hold: Arc<Hold>, token: FencingToken) -> Self {
        Self {
            hold,
            turn: 0,
            token,
            place: None,
            released: false,
            under_way: None,
        }
    }

    /// Lets the guard hand its hold on at `place` when it is released.
    ///
    /// A guard that has a place already, because one hand-off was put upon another, keeps it.
    pub(crate) fn at(mut self, place: Place) -> Self {
        if self.place.is_some() {
            return self;
        }
        let lost = place.forfeiter();
        self.hold.on_loss(move || lost.forfeit());
        // It may have been lost before anybody listened.
        if self.hold.expire_if_due().is_err() {
            place.forfeit();
        }
        self.place = Some(place);
        self
    }

    /// Limits for how long it may be held, from now on.
    pub(crate) fn holding_at_most(self, max_hold: Option<Duration>) -> Self {
        self.hold.hold_at_most(max_hold);
        self
    }

    pub(crate) fn hold(&self) -> &Arc<Hold> {
        &self.hold
    }

    /// The locked resource.
    pub fn key(&self) -> &LockKey {
        self.hold.id.key()
    }

    /// Returns who else may hold it at the same time.
    pub fn mode(&self) -> Mode {
        self.hold.id.mode()
    }

    /// The fencing token: greater for every later grant of this key.
    pub fn token(&self) -> FencingToken {
        self.token
    }

    /// Returns true if the lock is held at this very moment. It asks the local clock, not the store, so
    /// it is cheap enough to ask before every step, and it cannot hang.
    pub fn is_held(&self) -> bool {
        self.hold.check(self.turn).is_ok()
    }

    /// Returns how long it stays held without another renewal; zero once it is lost.
    pub fn remaining(&self) -> Duration {
        self.hold.remaining()
    }

    /// Returns how it stands at this very moment, by the local clock alone: held, held with a renewal that is
    /// overdue, or lost. [`HoldWatch::states`] tells every change.
    pub fn state(&self) -> HoldState {
        self.watch().state()
    }

    /// Waits until the lock is lost, and says why.
    ///
    /// When it cannot be renewed it resolves before anyone else can get in. When it was removed on
    /// the store it resolves within a third of the ttl and a round trip, on backends that push at
    /// once.
    ///
    /// # Cancel safety
    ///
    /// Cancel safe, and any number of callers may wait.
    pub async fn lost(&self) -> LossReason {
        self.hold.ended(self.turn).await
    }

    /// A view of this hold that can be cloned and sent into blocking work.
    pub fn watch(&self) -> HoldWatch {
        HoldWatch::new(Arc::clone(&self.hold), self.turn)
    }

    /// Releases the lock and waits for the store's answer.
    ///
    /// [`Released::AlreadyLost`] tells that it was lost before; that is not an error. The key then stays
    /// closed for its [lock delay](crate::LockRequest::lock_delay), if it has one, which is not waited for.
    ///
    /// # Errors
    ///
    /// [`Unavailable`](crate::ErrorKind::Unavailable) when the store did not answer. The release is
    /// then repeated in the background, and at the latest the ttl ends the hold.
    ///
    /// # Cancel safety
    ///
    /// Dropping the future does not stop the release: it goes on in the background.
    pub async fn release(self) -> Result<Released> {
        if self.hold.is_member() {
            self.release_part().await
        } else {
            self.release_whole().await
        }
    }

    /// Releases what this guard has of a shared hold; the last one releases the hold.
    async fn release_part(mut self) -> Result<Released> {
        let part = self.hold.take_part();
        let was_held = self.end();
        self.released = true;
        // Not the guard of a member: that of the whole.
        let outcome = match part.and_then(Arc::into_inner) {
            Some(whole) => whole.into_guard().release_whole().await?,
            None => Released::Released,
        };
        Ok(if was_held {
            outcome
        } else {
            Released::AlreadyLost
        })
    }

    async fn release_whole(mut self) -> Result<Released> {
        if self.hand_on() {
            return Ok(Released::Released);
        }
        // Kept until the guard is gone, whose drop repeats the release if there is no answer.
        let keeper = &self.hold.keeper;
        let of_key = keeper.releases.begin(&self.hold.id);
        self.under_way = Some(Box::new((keeper.gate.enter(), of_key)));
        let was_held = self.end();
        if self.hold.is_left_to_its_delay() {
            self.released = true;
            return Ok(Released::AlreadyLost);
        }
        let outcome = self.hold.keeper.release(&self.hold.id).await?;
        self.released = true;
        Ok(if was_held {
            outcome
        } else {
            Released::AlreadyLost
        })
    }

    /// Gives the hold to the next waiter of this process, if there is one that may have it.
    fn hand_on(&mut self) -> bool {
        while let Some(token) = self.token.next_hand_off() {
            let Some(place) = &self.place else {
                return false;
            };
            // A release that was begun has ended it.
            if !self.is_held() {
                return false;
            }
            let Some(waiter) = place.next_waiter(&self.hold) else {
                return false;
            };
            let Some(turn) = self.hold.next_turn(waiter.max_hold()) else {
                // It was lost just now.
                place.put_back(waiter);
                return false;
            };
            let successor = Self {
                hold: Arc::clone(&self.hold),
                turn,
                token,
                place: self.place.take(),
                released: false,
                under_way: None,
            };
            match waiter.give(successor) {
                None => {
                    self.released = true;
                    return true;
                }
                Some(mut refused) => {
                    // Its waiter has gone: the hold comes back, together with the new turn.
                    refused.released = true;
                    self.turn = turn;
                    self.token = token;
                    self.place = refused.place.take();
                }
            }
        }
        false
    }

    /// Ends the hold locally; returns whether it was still held.
    fn end(&self) -> bool {
        if let Some(place) = &self.place {
            place.gives_up();
        }
        self.hold.schedule.remove(&self.hold);
        self.is_held() && self.hold.end(LossReason::Released)
    }
}

impl Drop for LockGuard {
    fn drop(&mut self) {
        if self.hold.is_member() {
            let part = self.hold.take_part();
            self.end();
            // After its end: with the last part the whole is released.
            drop(part);
        } else if !self.released && !self.hand_on() {
            // From before its end, so that no shutdown finds it neither held nor under way.
            let releasing = self.hold.releasing();
            self.end();
            let is_closed = self.hold.expire_if_due() == Err(LossReason::Closed);
            if is_closed || self.hold.is_left_to_its_delay() {
                // The shutdown has seen to it, or its loss has.
                releasing.confirmed();
            } else {
                self.hold
                    .release_in_background(releasing, self.place.take());
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

impl Hold {
    /// Notes that a release is under way: the store ends the hold after one ttl of its own without it.
    pub(crate) fn releasing(&self) -> ReleaseGuard {
        let now = self.keeper.clock.now();
        let of_key = self.keeper.releases.begin(&self.id);
        let expires = now.plus(self.store_ttl());
        self.keeper.gate.release(of_key, now, expires)
    }

    /// Releases when its lock delay is over, `until` then. A store that has ended the hold by itself
    /// is asked in vain; one whose holds share a lease may not have. Until then nothing is under way that a
    /// shutdown would wait for.
    pub(crate) fn release_after(self: &Arc<Self>, until: Moment) {
        let hold = Arc::clone(self);
        self.handle.spawn(async move {
            hold.keeper.clock.sleep_until(until).await;
            let releasing = hold.releasing();
            release_until_confirmed(hold, None, releasing).await;
        });
    }

    /// Releases from `runtime`, without anybody waiting for it.
    pub(crate) fn release_from(self: &Arc<Self>, runtime: &Handle) {
        let releasing = self.releasing();
        runtime.spawn(release_until_confirmed(Arc::clone(self), None, releasing));
    }

    /// Releases without anybody waiting for it, from any thread, also in `Drop`.
    /// Only then somebody else in this process may claim at `place`.
    pub(crate) fn release_in_background(
        self: &Arc<Self>,
        releasing: ReleaseGuard,
        place: Option<Place>,
    ) {
        let mut release = Box::pin(release_until_confirmed(Arc::clone(self), place, releasing));
        if self.keeper.keeper_runtime.outlives_callers() {
            self.handle.spawn(release);
            return;
        }
        // on the caller's runtime the runtime may be shutting down, and would drop a new task
        // silently. A backend without I/O is done at the first poll.
        let _runtime = self.handle.enter();
        // A release that needs a timer or a socket of a runtime that is gone panics, and a panic in
        // `Drop` may end the process: then the ttl ends the hold.
        let first_poll = AssertUnwindSafe(|| {
            Pin::new(&mut release).poll(&mut Context::from_waker(Waker::noop()))
        });
        if catch_unwind(first_poll).is_ok_and(|finished| finished.is_pending()) {
            self.handle.spawn(release);
        }
    }
}

/// Repeats the release until the store has answered, at most for one ttl of the store: by then it
/// has ended the hold by itself.
async fn release_until_confirmed(
    hold: Arc<Hold>,
    mut place: Option<Place>,
    releasing: ReleaseGuard,
) {
    let clock = hold.keeper.clock;
    let end = clock.now().plus(hold.store_ttl());
    let mut backoff = Backoff::new(Duration::from_millis(5), Duration::from_secs(1));
    while let Err(error) = hold.keeper.release(&hold.id).await {
        let left = end.since(clock.now());
        if left.is_zero() {
            tracing::warn!(key = %hold.id.key(), %error, "release not confirmed; the ttl ends the hold");
            return;
        }
        let pause = backoff.next_pause().min(left);
        if !error.is_retryable() {
            // Whoever is next hears from the store what is wrong, and not after a ttl.
            place = None;
        }
        tokio::time::sleep(pause).await;
    }
    releasing.confirmed();
    drop(place);
}
