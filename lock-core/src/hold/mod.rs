//! One hold on a key, shared by the guard, the keeper and the watches.

pub(crate) mod loss;
pub(crate) mod loss_reason;
mod members;
pub(crate) mod state;
pub(crate) mod state_stream;
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
use crate::keeper::releases::OneRelease;
use crate::mutex::Mutex;

/// The keeper of a hold, which carries out the effects of the hold's changes.
pub(crate) trait HoldKeeper: Send + Sync {
    /// Schedules a check of the hold at `due`.
    fn attend_at(self: Arc<Self>, hold: &Arc<Hold>, due: Moment);

    /// Makes tries of this client for the key wait until the value is dropped.
    fn hold_tries_back(&self, id: &HoldId) -> OneRelease;

    /// Handles the end of a hold: removes it, and releases it if its guard may never do so.
    fn ended(&self, hold: &Hold, reason: LossReason);

    /// Drops `part` at `until`.
    fn keep_until(&self, part: Part, until: Moment);
}

/// A member's reference to the guard of the shared hold. Dropping the last one releases the hold.
pub(crate) type Part = Arc<dyn Any + Send + Sync>;

/// A hold: its validity, and the tasks that are notified of changes.
pub(crate) struct Hold {
    pub(crate) id: HoldId,
    clock: Clock,
    keeper: Arc<dyn HoldKeeper>,
    state: Mutex<Validity>,
    /// The next check in the keeper's schedule, if there is one.
    scheduled: Mutex<Option<Moment>>,
    changed: Notify,
    on_loss: OnceLock<Box<dyn Fn() + Send + Sync>>,
    /// The members of a shared hold, and how many there ever were.
    members: OnceLock<Mutex<(u64, Vec<Weak<Self>>)>>,
    /// The slot of a permit.
    slot: OnceLock<u32>,
    /// For a member: the shared hold, and its part of that hold until the member ends.
    part: Option<(Arc<Self>, Mutex<Option<Part>>)>,
}

impl Hold {
    /// Creates the hold of a claim without a grant.
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
            slot: OnceLock::new(),
            part: None,
        }
    }

    /// Starts a grant of `ttl` to a request sent at `sent`, and a guard's turn of at most
    /// `max_hold`.
    pub(crate) fn start(&self, sent: Moment, ttl: Duration, max_hold: Option<Duration>) {
        let now = self.clock.now();
        let mut state = self.state.lock();
        state.start(now, (sent, ttl), self.id.min_hold(), max_hold);
    }

    /// Returns true once the hold has ended.
    pub(crate) fn has_ended(&self) -> bool {
        self.state.lock().reason().is_some()
    }

    /// Returns true once the hold has ended and its key may open.
    pub(crate) fn is_over(&self) -> bool {
        self.state.lock().is_over(self.clock.now())
    }

    /// Returns when the key of an ended hold opens, if it does not open at once. The keeper then
    /// releases the hold at that moment.
    pub(crate) fn closed_until(&self) -> Option<Moment> {
        self.state.lock().closed_until()
    }

    /// Returns true if the hold was lost and its key stays closed for a while: the guard's drop
    /// does nothing.
    pub(crate) fn is_lost_and_kept(&self) -> bool {
        let state = self.state.lock();
        state.closed_until().is_some() && !state.is_given_back()
    }

    /// Returns the time for which the store keeps a hold that was given back, if its minimum hold
    /// is not over.
    pub(crate) fn kept_for(&self) -> Option<Duration> {
        let state = self.state.lock();
        let until = state.closed_until().filter(|_| state.is_given_back())?;
        Some(until.since(self.clock.now())).filter(|left| !left.is_zero())
    }

    /// Returns the id for a renewal that is sent now.
    pub(crate) fn renewing(&self) -> HoldId {
        match self.id.min_hold() {
            Duration::ZERO => self.id.clone(),
            _ => (self.id).renewing(self.state.lock().min_hold_left(self.clock.now())),
        }
    }

    /// Returns the guard's part of the `ttl` that the store granted to a request for `asked`.
    pub(crate) fn usable(&self, asked: &HoldId, ttl: Duration) -> Duration {
        let usable = ttl.saturating_sub(asked.reserve());
        match self.id.min_hold() {
            Duration::ZERO => usable,
            // The leases of some stores stay as long as the minimum hold was at first.
            _ => usable.min(self.id.ttl()),
        }
    }

    /// Returns the time that the hold stays valid without another renewal.
    pub(crate) fn remaining(&self) -> Duration {
        match self.expire_if_due() {
            Ok(deadline) => deadline.since(self.clock.now()),
            Err(_) => Duration::ZERO,
        }
    }

    /// Returns the time since the hold was granted, or its last renewal confirmed.
    pub(crate) fn unconfirmed_for(&self) -> Duration {
        self.state.lock().unconfirmed_for(self.clock.now())
    }

    /// Returns the guard's part of the last granted ttl, which may be less than requested.
    pub(crate) fn ttl(&self) -> Duration {
        self.state.lock().granted_ttl().unwrap_or_default()
    }

    /// Returns the time that the store keeps the hold after a request: as granted last, else as
    /// requested.
    pub(crate) fn store_ttl(&self) -> Duration {
        let granted = self.state.lock().granted_ttl();
        granted.map_or(self.id.store_ttl(), |ttl| ttl + self.renewing().reserve())
    }

    /// Returns the time that the present guard has had the hold.
    pub(crate) fn held_for(&self) -> Duration {
        self.state.lock().held_for(self.clock.now())
    }

    /// Returns true if most of the granted time is left.
    pub(crate) fn is_fresh(&self) -> bool {
        self.state.lock().is_fresh(self.clock.now())
    }

    /// Returns the deadline of a valid hold, else the reason of its end.
    ///
    /// Reading a deadline that has passed makes the loss final: no later renewal revives the hold.
    pub(crate) fn expire_if_due(&self) -> Result<Moment, LossReason> {
        self.check_generation(None)
    }

    /// Like [`expire_if_due`](Self::expire_if_due), but fails with `Released` if the hold now
    /// belongs to a later guard.
    pub(crate) fn check(&self, generation: GuardGeneration) -> Result<Moment, LossReason> {
        self.check_generation(Some(generation))
    }

    fn check_generation(&self, generation: Option<GuardGeneration>) -> Result<Moment, LossReason> {
        let mut state = self.state.lock();
        let checked = state.check(self.clock.now(), generation);
        // Before anybody sees the end: its release is registered only by the notification.
        let _until_released =
            matches!(checked, Check::EndsNow(_)).then(|| self.keeper.hold_tries_back(&self.id));
        drop(state);
        match checked {
            Check::Valid(deadline) => Ok(deadline),
            Check::Ended(reason) => Err(reason),
            Check::EndsNow(reason) => {
                self.notify_ended(reason);
                Err(reason)
            }
        }
    }

    /// Ends the hold and returns true, unless it has ended before, whose reason stays.
    pub(crate) fn end(&self, reason: LossReason) -> bool {
        let has_ended = self.state.lock().end(self.clock.now(), reason);
        if has_ended {
            self.notify_ended(reason);
        }
        has_ended
    }

    /// Ends the hold because the store no longer has it. A hold that is being converted is first
    /// looked for again: its new claim may have replaced it.
    pub(crate) fn end_as_gone(&self, reason: LossReason) {
        let now = self.clock.now();
        if !self.state.lock().is_missed_in_conversion(now) {
            self.end(reason);
        }
    }

    /// Notes that a conversion begins or ends.
    pub(crate) fn set_converting(&self, converting: bool) {
        self.state.lock().set_converting(converting);
    }

    /// Returns what is left of the present guard's maximum time, if it has one.
    pub(crate) fn turn_left(&self) -> Option<Duration> {
        self.state.lock().turn_left(self.clock.now())
    }

    /// Notes the slot of a permit, once.
    pub(crate) fn set_slot(&self, slot: u32) {
        let _first = self.slot.set(slot);
    }

    pub(crate) fn slot(&self) -> Option<u32> {
        self.slot.get().copied()
    }

    /// Registers `action` to run when the hold is lost, even if its guard is never dropped.
    pub(crate) fn on_loss(&self, action: impl Fn() + Send + Sync + 'static) {
        // A hold belongs to at most one hand-off queue, so this is set once.
        let _first = self.on_loss.set(Box::new(action));
    }

    /// Repeats the notification of an end that came before the keeper registered the hold.
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

    /// Ends the turn of a valid hold's guard and starts the next, of at most `max_hold`.
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

    /// Limits the present guard's time to `max_hold` from now on.
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

    /// Schedules a check of the hold at `due`, or at the end of the guard's turn if that is
    /// earlier.
    pub(crate) fn attend_at(self: &Arc<Self>, due: Moment) {
        let turn_ends = self.state.lock().turn_ends();
        let due = turn_ends.map_or(due, |ends| ends.min(due));
        Arc::clone(&self.keeper).attend_at(self, due);
    }

    /// Records the hold's entry in the schedule; returns the previous one.
    pub(crate) fn reschedule(&self, due: Option<Moment>) -> Option<Moment> {
        std::mem::replace(&mut self.scheduled.lock(), due)
    }

    /// Applies the answer to a renewal sent at `sent`; `None` if the hold has ended.
    pub(crate) fn renewed(&self, sent: Moment, ttl: Duration) -> Option<Confirmed> {
        self.expire_if_due().ok()?;
        let confirmed = self.state.lock().renewed(self.clock.now(), sent, ttl);
        if confirmed.is_to_be_told {
            self.changed.notify_waiters();
        }
        self.update_members();
        self.expire_if_due().ok().map(|_| confirmed)
    }

    /// Limits the validity to `ttl` from `since`, reserve included, and requests a renewal soon.
    /// The limit ends when a later request is confirmed.
    pub(crate) fn limit_validity(self: &Arc<Self>, since: Moment, ttl: Duration) {
        let is_held = self.state.lock().limit(since, self.usable(&self.id, ttl));
        // Wake the tasks that sleep until the deadline, since it may be earlier now.
        self.changed.notify_waiters();
        self.update_members();
        if is_held {
            self.state.lock().mark_recheck();
            self.attend_at(self.clock.now());
        }
    }

    /// Returns the state for a guard of `generation`, and when it next changes without an event.
    pub(crate) fn state_in(&self, generation: GuardGeneration) -> (HoldState, Option<Moment>) {
        match self.check(generation) {
            Ok(deadline) => {
                let (state, changes) = self.state.lock().state(self.clock.now(), deadline);
                (state, Some(changes))
            }
            Err(reason) => (HoldState::Lost(reason), None),
        }
    }

    /// Resolves at the next change that is not due to the passing of time.
    pub(crate) fn changed(&self) -> Notified<'_> {
        self.changed.notified()
    }

    /// Sleeps until `moment`; for ever outside a runtime.
    pub(crate) async fn sleep_until(&self, moment: Moment) {
        let is_in_runtime = Handle::try_current().is_ok();
        match is_in_runtime {
            true => self.clock.sleep_until(moment).await,
            false => std::future::pending().await,
        }
    }

    /// Starts a renewal; false while one is pending, and for a member, which follows its shared
    /// hold.
    pub(crate) fn begin_renewal(&self) -> bool {
        !self.is_member() && self.state.lock().begin_renewal()
    }

    /// Makes the hold due again after a renewal with an unknown outcome.
    pub(crate) fn renewal_failed(&self) {
        self.state.lock().renewal_failed();
    }

    /// Returns true if a renewal was ever sent.
    pub(crate) fn was_renewed(&self) -> bool {
        self.state.lock().was_renewed()
    }

    /// Requests an early renewal, after a change of the key.
    pub(crate) fn recheck(self: &Arc<Self>) {
        self.state.lock().mark_recheck();
        self.attend_to_recheck();
    }

    /// Requests an early renewal if the key changed since the last renewal was sent.
    pub(crate) fn recheck_if_needed(self: &Arc<Self>) {
        if self.state.lock().needs_recheck() {
            self.attend_to_recheck();
        }
    }

    fn attend_to_recheck(self: &Arc<Self>) {
        let soon = self.state.lock().next_recheck(self.clock.now());
        self.attend_at(soon);
    }

    /// Waits until the hold or its guard's turn ends.
    pub(crate) async fn ended(&self, generation: GuardGeneration) -> LossReason {
        loop {
            let changed = self.changed.notified();
            let deadline = match self.check(generation) {
                Ok(deadline) => deadline,
                Err(reason) => return reason,
            };
            // The keeper's timer ends the hold at its deadline, but the keeper may be late, or gone
            // with another caller's runtime.
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

#[cfg(test)]
mod tests;
