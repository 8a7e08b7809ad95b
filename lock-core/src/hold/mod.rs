//! One hold on a key, shared by the guard, the keeper and the watches.

pub(crate) mod loss;
pub(crate) mod loss_reason;
mod members;
pub(crate) mod state;
pub(crate) mod states;
pub(crate) mod validity;
pub(crate) mod watch;

use std::any::Any;
use std::fmt;
use std::sync::{Arc, OnceLock, Weak};
use std::time::Duration;

use tokio::runtime::Handle;
use tokio::sync::Notify;
use tokio::sync::futures::Notified;

use crate::backend::{Clock, HoldId, Moment};
use crate::hold::loss_reason::LossReason;
use crate::hold::state::HoldState;
use crate::hold::validity::{Check, Confirmed, GuardGeneration, Validity};
use crate::mutex::Mutex;

/// The keeper of a hold, as far as the hold knows it: it does what its changes entail.
pub(crate) trait HoldKeeper: Send + Sync {
    /// Has the hold looked at then.
    fn attend_at(self: Arc<Self>, hold: &Arc<Hold>, due: Moment);

    /// Sees to a hold that has ended for `reason`: forgets it, and gives back what its guard may
    /// never do.
    fn ended(&self, hold: &Hold, reason: LossReason);

    /// Drops `part` then.
    fn keep_until(&self, part: Part, until: Moment);
}

/// The share of a member in the guard of the whole hold, which is released when the last one was
/// dropped.
pub(crate) type Part = Arc<dyn Any + Send + Sync>;

/// A hold: its validity, and those who are told when it changes.
pub(crate) struct Hold {
    pub(crate) id: HoldId,
    clock: Clock,
    keeper: Arc<dyn HoldKeeper>,
    state: Mutex<Validity>,
    /// When the keeper looks at it, where its schedule has it.
    scheduled: Mutex<Option<Moment>>,
    changed: Notify,
    on_loss: OnceLock<Box<dyn Fn() + Send + Sync>>,
    /// The members that share this hold, if it is shared, and how many there were.
    members: OnceLock<Mutex<(u64, Vec<Weak<Self>>)>>,
    /// The hold that this is a member of, if it is one, and its part of that until it has ended.
    part: Option<(Arc<Self>, Mutex<Option<Part>>)>,
}

impl Hold {
    /// Makes the hold of a claim, which was not granted yet.
    pub(crate) fn new(id: HoldId, clock: Clock, keeper: Arc<dyn HoldKeeper>) -> Self {
        let validity = Validity::none(clock.now(), &id);
        Self::of(id, clock, keeper, validity)
    }

    fn of(id: HoldId, clock: Clock, keeper: Arc<dyn HoldKeeper>, validity: Validity) -> Self {
        Self {
            id,
            clock,
            keeper,
            state: Mutex::new(validity),
            scheduled: Mutex::default(),
            changed: Notify::new(),
            on_loss: OnceLock::new(),
            members: OnceLock::new(),
            part: None,
        }
    }

    /// Starts the validity that a grant of `ttl` brought, whose request was `sent` then, and a turn
    /// of `max_hold` at most.
    pub(crate) fn start(&self, sent: Moment, ttl: Duration, max_hold: Option<Duration>) {
        let now = self.clock.now();
        self.state.lock().start(now, (sent, ttl), max_hold);
    }

    /// Returns true if its end has been told.
    pub(crate) fn has_ended(&self) -> bool {
        self.state.lock().reason().is_some()
    }

    /// Returns true if it has ended, and its lock delay is over.
    pub(crate) fn is_over(&self) -> bool {
        self.state.lock().is_over(self.clock.now())
    }

    /// Returns until when its lock delay keeps the key closed, if it was lost so: then it is given
    /// back when that is over, and its guard does nothing about it.
    pub(crate) fn closed_until(&self) -> Option<Moment> {
        self.state.lock().closed_until()
    }

    /// Returns what a guard has of the `ttl` that the store granted.
    pub(crate) fn usable(&self, ttl: Duration) -> Duration {
        ttl.saturating_sub(self.id.lock_delay())
    }

    /// Returns how long the hold stays valid without another renewal.
    pub(crate) fn remaining(&self) -> Duration {
        match self.expire_if_due() {
            Ok(deadline) => deadline.since(self.clock.now()),
            Err(_) => Duration::ZERO,
        }
    }

    /// Returns what the guard has of the ttl that the store granted last, which may be less than
    /// was asked for.
    pub(crate) fn ttl(&self) -> Duration {
        self.state.lock().granted_ttl().unwrap_or_default()
    }

    /// Returns for how long the store keeps it from a request on: what it granted last, or what it
    /// was asked for.
    pub(crate) fn store_ttl(&self) -> Duration {
        let granted = self.state.lock().granted_ttl();
        granted.map_or(self.id.store_ttl(), |ttl| ttl + self.id.lock_delay())
    }

    /// Returns for how long its present guard has had it.
    pub(crate) fn held_for(&self) -> Duration {
        self.state.lock().held_for(self.clock.now())
    }

    /// Returns true if most of what the store granted is ahead.
    pub(crate) fn is_fresh(&self) -> bool {
        self.state.lock().is_fresh(self.clock.now())
    }

    /// Returns the deadline of a valid hold, or why it is none. Reading a deadline that has passed
    /// makes the loss final: no later renewal brings the hold back.
    pub(crate) fn expire_if_due(&self) -> Result<Moment, LossReason> {
        self.check_generation(None)
    }

    /// Like [`expire_if_due`](Self::expire_if_due), but fails with `Released` if the hold now
    /// belongs to a later guard.
    pub(crate) fn check(&self, generation: GuardGeneration) -> Result<Moment, LossReason> {
        self.check_generation(Some(generation))
    }

    fn check_generation(&self, generation: Option<GuardGeneration>) -> Result<Moment, LossReason> {
        let checked = self.state.lock().check(self.clock.now(), generation);
        match checked {
            Check::Valid(deadline) => Ok(deadline),
            Check::Ended(reason) => Err(reason),
            Check::EndsNow(reason) => {
                self.notify_ended(reason);
                Err(reason)
            }
        }
    }

    /// Ends the hold; the first reason stays. Returns true if this has ended it.
    pub(crate) fn end(&self, reason: LossReason) -> bool {
        let has_ended = self.state.lock().end(self.clock.now(), reason);
        if has_ended {
            self.notify_ended(reason);
        }
        has_ended
    }

    /// Has `action` done when the hold is lost, however late its guard is dropped.
    pub(crate) fn on_loss(&self, action: impl Fn() + Send + Sync + 'static) {
        // A hold meets one queue in its life, so nothing is ever overwritten.
        let _first = self.on_loss.set(Box::new(action));
    }

    /// Tells its end once more if that came before the keeper knew of it.
    pub(crate) fn notify_early_end(&self) {
        let end = self.state.lock().reason();
        if let Some(reason) = end {
            self.notify_ended(reason);
        }
    }

    fn notify_ended(&self, reason: LossReason) {
        self.keeper.ended(self, reason);
        self.changed.notify_waiters();
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
        let generation = self.state.lock().next_turn(self.clock.now(), max_hold)?;
        if max_hold.is_some() {
            self.attend_at_end_of_turn();
        }
        self.changed.notify_waiters();
        Some(generation)
    }

    /// Limits for how long the present guard has it, from now on.
    pub(crate) fn hold_at_most(self: &Arc<Self>, max_hold: Option<Duration>) {
        if let Some(limit) = max_hold {
            self.state.lock().hold_at_most(self.clock.now(), limit);
            self.attend_at_end_of_turn();
        }
    }

    fn attend_at_end_of_turn(self: &Arc<Self>) {
        let scheduled = *self.scheduled.lock();
        self.attend_at(scheduled.unwrap_or(self.clock.now()));
    }

    /// Has the keeper look at the hold then, or when its turn ends.
    pub(crate) fn attend_at(self: &Arc<Self>, due: Moment) {
        let turn_ends = self.state.lock().turn_ends();
        let due = turn_ends.map_or(due, |ends| ends.min(due));
        Arc::clone(&self.keeper).attend_at(self, due);
    }

    /// Notes when the schedule has it looked at; returns when that was to be before.
    pub(crate) fn reschedule(&self, due: Option<Moment>) -> Option<Moment> {
        std::mem::replace(&mut self.scheduled.lock(), due)
    }

    /// Takes the answer to a renewal that was `sent` then; `None` if the hold has ended, before or
    /// by this.
    pub(crate) fn renewed(&self, sent: Moment, ttl: Duration) -> Option<Confirmed> {
        self.expire_if_due().ok()?;
        let confirmed = self.state.lock().renewed(self.clock.now(), sent, ttl);
        if confirmed.is_to_be_told {
            self.changed.notify_waiters();
        }
        self.tell_members();
        self.expire_if_due().ok().map(|_| confirmed)
    }

    /// Ends its validity `ttl` after `since` at the latest, lock delay included, unless a later
    /// request is confirmed, and has it renewed soon.
    pub(crate) fn count_on_at_most(self: &Arc<Self>, since: Moment, ttl: Duration) {
        let is_held = self.state.lock().limit(since, self.usable(ttl));
        // Those who sleep until its deadline have an earlier one now.
        self.changed.notify_waiters();
        self.tell_members();
        if is_held {
            self.state.lock().mark_recheck();
            self.attend_at(self.clock.now());
        }
    }

    /// Returns the state of the hold for the guard of one turn, and when it changes without an
    /// event.
    pub(crate) fn state_in(&self, generation: GuardGeneration) -> (HoldState, Option<Moment>) {
        match self.check(generation) {
            Ok(deadline) => {
                let (state, changes) = self.state.lock().state(self.clock.now(), deadline);
                (state, Some(changes))
            }
            Err(reason) => (HoldState::Lost(reason), None),
        }
    }

    /// Resolves at the next change of the state that is not due by the clock.
    pub(crate) fn changed(&self) -> Notified<'_> {
        self.changed.notified()
    }

    /// Sleeps until `moment`; for ever outside of a runtime.
    pub(crate) async fn sleep_until(&self, moment: Moment) {
        let is_in_runtime = Handle::try_current().is_ok();
        match is_in_runtime {
            true => self.clock.sleep_until(moment).await,
            false => std::future::pending().await,
        }
    }

    /// Begins a renewal; `false` while one is under way, and for a member, which follows the whole.
    pub(crate) fn begin_renewal(&self) -> bool {
        !self.is_member() && self.state.lock().begin_renewal()
    }

    /// Makes the hold due for another renewal after one with an unknown outcome.
    pub(crate) fn renewal_failed(&self) {
        self.state.lock().renewal_failed();
    }

    /// Returns true if a renewal was ever sent.
    pub(crate) fn was_renewed(&self) -> bool {
        self.state.lock().was_renewed()
    }

    /// Has the keeper ask soon whether it is still there, since something happened to its key.
    pub(crate) fn recheck(self: &Arc<Self>) {
        self.state.lock().mark_recheck();
        self.attend_to_recheck();
    }

    /// Has the keeper ask soon if something happened to the key since the last renewal was sent.
    pub(crate) fn recheck_if_needed(self: &Arc<Self>) {
        if self.state.lock().needs_recheck() {
            self.attend_to_recheck();
        }
    }

    fn attend_to_recheck(self: &Arc<Self>) {
        let soon = self.state.lock().next_recheck(self.clock.now());
        self.attend_at(soon);
    }

    /// Waits for the end of the hold, or of its guard's turn.
    pub(crate) async fn ended(&self, generation: GuardGeneration) -> LossReason {
        loop {
            let changed = self.changed.notified();
            let deadline = match self.check(generation) {
                Ok(deadline) => deadline,
                Err(reason) => return reason,
            };
            // The keeper's timer ends the hold at its deadline, but the keeper may be held up or
            // have gone with the runtime of another caller.
            tokio::select! {
                () = changed => {}
                () = self.sleep_until(deadline) => {}
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
