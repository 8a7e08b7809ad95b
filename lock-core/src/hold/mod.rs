//! One hold on a key, shared by the guard, the keeper and the watches: until when it is valid,
//! and why it ended.

pub(crate) mod guard;
pub(crate) mod loss;
pub(crate) mod members;
pub(crate) mod state;
pub(crate) mod validity;
pub(crate) mod watch;

use std::fmt;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use tokio::runtime::Handle;
use tokio::sync::Notify;
use tokio::sync::futures::Notified;

use crate::hold::members::{Members, SharedHold};
use crate::hold::validity::{Extended, GuardGeneration, Step, Validity};
use crate::keeper::KeeperInner;
use crate::keeper::schedule::RenewalSchedule;
use crate::mutex::Mutex;
use crate::{HoldId, HoldState, LossReason, Moment};

/// The time that a hold is left alone after it was confirmed, although its key changes: a thirtieth of its
/// ttl within these.
const ALARM_PAUSE_MIN: Duration = Duration::from_millis(10);
const ALARM_PAUSE_MAX: Duration = Duration::from_secs(1);

pub(crate) struct Hold {
    pub(crate) id: HoldId,
    pub(crate) keeper: Arc<KeeperInner>,
    pub(crate) schedule: Arc<RenewalSchedule>,
    /// Where clean-ups of this hold run when nobody waits for them.
    pub(crate) handle: Handle,
    pub(crate) state: Mutex<Validity>,
    pub(crate) changed: Notify,
    pub(crate) on_loss: OnceLock<Box<dyn Fn() + Send + Sync>>,
    /// The members that share this hold, if it is shared.
    pub(crate) members: OnceLock<Members>,
    /// The shared hold that this is a member of, if it is one, until it has ended.
    pub(crate) part_of: Option<Mutex<Option<Arc<SharedHold>>>>,
}

impl Hold {
    pub(crate) fn new(
        id: HoldId,
        keeper: Arc<KeeperInner>,
        schedule: Arc<RenewalSchedule>,
        handle: Handle,
    ) -> Self {
        let now = keeper.clock.now();
        Self {
            id,
            keeper,
            schedule,
            handle,
            state: Mutex::new(Validity::none(now)),
            changed: Notify::new(),
            on_loss: OnceLock::new(),
            members: OnceLock::new(),
            part_of: None,
        }
    }

    /// Starts the validity that a grant of `ttl` brought, whose request was `sent` then, and a turn of
    /// `max_hold` at most.
    pub(crate) fn start(&self, sent: Moment, ttl: Duration, max_hold: Option<Duration>) {
        let turn_ends = self.ends_after(max_hold);
        let mut state = self.state.lock();
        state.turn_ends = turn_ends;
        state.turn_began = self.keeper.clock.now();
        state.start(sent, ttl);
    }

    /// Returns true if its end has been told.
    pub(crate) fn has_ended(&self) -> bool {
        self.state.lock().end.is_some()
    }

    /// Returns true if it has ended, and its lock delay is over.
    pub(crate) fn is_over(&self) -> bool {
        let state = self.state.lock();
        let is_closed = |until| self.keeper.clock.now() < until;
        state.end.is_some() && !state.closed_until.is_some_and(is_closed)
    }

    /// Returns true if it was lost and stays on the store for its lock delay: then it is given back
    /// when that is over, and whoever has its guard does nothing about it.
    pub(crate) fn is_left_to_its_delay(&self) -> bool {
        self.state.lock().closed_until.is_some()
    }

    /// Returns what a guard has of the `ttl` that the store granted.
    pub(crate) fn usable(&self, ttl: Duration) -> Duration {
        ttl.saturating_sub(self.id.lock_delay())
    }

    /// Returns how long the hold stays valid without another renewal.
    pub(crate) fn remaining(&self) -> Duration {
        match self.expire_if_due() {
            Ok(deadline) => deadline.since(self.keeper.clock.now()),
            Err(_) => Duration::ZERO,
        }
    }

    /// Returns what the guard has of the ttl that the store granted last, which may be less than was asked for.
    pub(crate) fn ttl(&self) -> Duration {
        self.state.lock().ttl
    }

    /// For how long the store keeps it from a request on: what it granted last, or what it was asked for.
    pub(crate) fn store_ttl(&self) -> Duration {
        let state = self.state.lock();
        if state.granted {
            state.ttl + self.id.lock_delay()
        } else {
            self.id.store_ttl()
        }
    }

    /// The deadline of a valid hold, or why it is none. Reading a deadline that has passed makes
    /// the loss final: no later renewal brings the hold back.
    pub(crate) fn expire_if_due(&self) -> Result<Moment, LossReason> {
        self.check_generation(None)
    }

    /// Like [`expire_if_due`](Self::expire_if_due), but fails with `Released` if the hold now belongs to a later guard.
    pub(crate) fn check(&self, turn: GuardGeneration) -> Result<Moment, LossReason> {
        self.check_generation(Some(turn))
    }

    fn check_generation(&self, turn: Option<GuardGeneration>) -> Result<Moment, LossReason> {
        let mut state = self.state.lock();
        if turn.is_some_and(|turn| turn != state.turn) {
            return Err(LossReason::Released);
        }
        if let Some(reason) = state.end {
            return Err(reason);
        }
        let (ends, reason) = state.valid_until();
        if self.keeper.clock.now() < ends {
            return Ok(ends);
        }
        state.end_now(self.keeper.clock.now(), reason, self.id.lock_delay());
        drop(state);
        self.notify_ended(reason);
        Err(reason)
    }

    /// When its guard will have had it for as long as it may.
    pub(crate) fn turn_ends(&self) -> Option<Moment> {
        self.state.lock().turn_ends
    }

    /// When a turn ends that begins now.
    pub(crate) fn ends_after(&self, max_hold: Option<Duration>) -> Option<Moment> {
        max_hold.map(|limit| self.keeper.clock.now().plus(limit))
    }

    /// Ends the hold; the first reason stays. Returns whether this call ended it.
    pub(crate) fn end(&self, reason: LossReason) -> bool {
        let mut state = self.state.lock();
        if state.end.is_some() {
            return false;
        }
        state.end_now(self.keeper.clock.now(), reason, self.id.lock_delay());
        drop(state);
        self.notify_ended(reason);
        true
    }

    /// Has `action` done when the hold is lost, however late its guard is dropped.
    pub(crate) fn on_loss(&self, action: impl Fn() + Send + Sync + 'static) {
        // A hold meets one desk in its life, so nothing is ever overwritten.
        let _first = self.on_loss.set(Box::new(action));
    }

    /// Tells its end once more if that came before the registry knew of it.
    pub(crate) fn notify_early_end(&self) {
        let end = self.state.lock().end;
        if let Some(reason) = end {
            self.notify_ended(reason);
        }
    }

    fn notify_ended(&self, reason: LossReason) {
        let closed_until = self.state.lock().closed_until;
        // From before it leaves the registry, so that no shutdown finds it neither held nor under way.
        let is_free_at_once =
            reason == LossReason::TooLong && closed_until.is_none() && !self.is_member();
        let releasing = is_free_at_once.then(|| self.releasing());
        if let Some(hold) = self.keeper.registry.leave(self) {
            // Its guard may be stuck or leaked, and the store knows of no limit, nor always of the loss.
            match (releasing, closed_until) {
                (Some(releasing), _) => hold.release_in_background(releasing, None),
                (None, Some(until)) => hold.release_after(until),
                (None, None) => {}
            }
        }
        self.changed.notify_waiters();
        if matches!(
            reason,
            LossReason::Expired | LossReason::Removed | LossReason::TooLong
        ) {
            tracing::warn!(
                key = %self.id.key(),
                backend = self.keeper.capabilities.backend,
                "lock lost: {reason}"
            );
        }
        if reason != LossReason::Released
            && let Some(action) = self.on_loss.get()
        {
            action();
        }
        self.end_members(reason);
    }

    /// Ends the turn of a valid hold's guard and starts the next guard's, of `max_hold` at most.
    pub(crate) fn next_turn(
        self: &Arc<Self>,
        max_hold: Option<Duration>,
    ) -> Option<GuardGeneration> {
        self.expire_if_due().ok()?;
        let turn_ends = self.ends_after(max_hold);
        let mut state = self.state.lock();
        if state.end.is_some() {
            return None;
        }
        state.turn_ends = turn_ends;
        state.turn_began = self.keeper.clock.now();
        state.turn += 1;
        let (turn, due) = (state.turn, state.due);
        drop(state);
        if max_hold.is_some() {
            // Moved to its end, if that comes first.
            self.attend_at(due.unwrap_or(self.keeper.clock.now()));
        }
        self.changed.notify_waiters();
        Some(turn)
    }

    /// Moves the deadline to `ttl` after a renewal that was confirmed and had been `sent` then, unless
    /// the hold has ended meanwhile.
    pub(crate) fn extend(&self, sent: Moment, ttl: Duration) -> Extended {
        if self.expire_if_due().is_err() {
            return Extended::Ended;
        }
        let mut state = self.state.lock();
        let was_overdue = state.overdue_from() <= self.keeper.clock.now();
        let (confirmed, deadline) = (state.confirmed, state.deadline);
        state.renewing = false;
        state.confirm(sent, ttl);
        // Those who wait for its end sleep until the deadline of before.
        let is_shortened = state.deadline < deadline;
        let due = state.renewal_due;
        drop(state);
        if was_overdue || is_shortened {
            self.changed.notify_waiters();
        }
        self.tell_members();
        match self.expire_if_due() {
            Ok(_) if sent > confirmed => Extended::Until(due),
            Ok(_) => Extended::NotAtAll,
            Err(_) => Extended::Ended,
        }
    }

    /// Has no request that was sent before `since` count for longer than `ttl` from then on. Returns whether a
    /// guard has it.
    pub(crate) fn limit(&self, since: Moment, ttl: Duration) -> bool {
        let mut state = self.state.lock();
        state.limit(since, ttl);
        let is_held = state.granted && state.end.is_none();
        drop(state);
        // Whoever sleeps until its deadline has an earlier one now.
        self.changed.notify_waiters();
        self.tell_members();
        is_held
    }

    /// Returns how the hold stands for the guard of one turn, and when that changes by itself.
    pub(crate) fn state_in(&self, turn: GuardGeneration) -> (HoldState, Option<Moment>) {
        let deadline = match self.check(turn) {
            Ok(deadline) => deadline,
            Err(reason) => return (HoldState::Lost(reason), None),
        };
        let now = self.keeper.clock.now();
        let remaining = deadline.since(now);
        let state = self.state.lock();
        let overdue_from = state.overdue_from();
        if now < overdue_from {
            return (
                HoldState::Held { remaining },
                Some(overdue_from.min(deadline)),
            );
        }
        let overdue = now.since(state.renewal_due);
        (HoldState::Suspect { overdue, remaining }, Some(deadline))
    }

    /// Resolves at the next change of how it stands that its own clock does not tell.
    pub(crate) fn changed(&self) -> Notified<'_> {
        self.changed.notified()
    }

    /// Makes the hold due for another renewal after one with an unknown outcome.
    pub(crate) fn renewal_failed(&self) {
        self.state.lock().renewing = false;
    }

    /// Returns what is to be done for it now. [`Step::Renew`] is answered once a renewal.
    pub(crate) fn step(&self) -> Step {
        let Ok(deadline) = self.expire_if_due() else {
            return Step::Forget;
        };
        let mut state = self.state.lock();
        if state.renewing || self.is_member() {
            return Step::WaitUntil(deadline);
        }
        state.renewing = true;
        state.was_renewed = true;
        state.recheck = false;
        Step::Renew(deadline)
    }

    /// Returns true if a renewal was ever sent; the first one may be unanswered when its key changes.
    pub(crate) fn was_renewed(&self) -> bool {
        self.state.lock().was_renewed
    }

    /// When to ask the store whether it is still there, once something has happened to its key: at
    /// once, but not again and again for a key that changes all the time.
    pub(crate) fn next_recheck(&self) -> Moment {
        let state = self.state.lock();
        let (ttl, confirmed) = (state.ttl, state.confirmed);
        drop(state);
        let pause = (ttl / 30).clamp(ALARM_PAUSE_MIN.min(ttl / 4), ALARM_PAUSE_MAX);
        self.keeper.clock.now().max(confirmed.plus(pause))
    }

    /// Says that something happened to the key on the store.
    pub(crate) fn mark_recheck(&self) {
        self.state.lock().recheck = true;
    }

    /// Returns true if something happened since the last renewal was sent.
    pub(crate) fn needs_recheck(&self) -> bool {
        self.state.lock().recheck
    }

    pub(crate) fn replace_due(&self, due: Option<Moment>) -> Option<Moment> {
        std::mem::replace(&mut self.state.lock().due, due)
    }

    /// Waits for the end of the hold, or of its guard's turn.
    pub(crate) async fn ended(&self, turn: GuardGeneration) -> LossReason {
        loop {
            let changed = self.changed.notified();
            let deadline = match self.check(turn) {
                Ok(deadline) => deadline,
                Err(reason) => return reason,
            };
            // The keeper's timer ends the hold at its deadline, but the keeper may be held up or have
            // gone with the runtime of another caller.
            tokio::select! {
                () = changed => {}
                () = self.keeper.clock.sleep_until(deadline), if Handle::try_current().is_ok() => {}
            }
        }
    }
}

impl fmt::Debug for Hold {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Hold")
            .field("id", &self.id)
            .field("state", &*self.state.lock())
            .finish_non_exhaustive()
    }
}
