//! The validity of a hold: its deadline, why it ended, and how long its key stays closed.
//!
//! A state machine without a clock, a lock or a store.

use std::time::Duration;

use crate::backend::{HoldId, Moment};
use crate::hold::loss_reason::LossReason;
use crate::hold::state::HoldState;

/// Bounds of the pause after a confirmation before a change of the key causes another renewal. The
/// pause is a thirtieth of the ttl.
const RECHECK_PAUSE_MIN: Duration = Duration::from_millis(10);
const RECHECK_PAUSE_MAX: Duration = Duration::from_secs(1);

/// The time in which the answer to a conversion usually arrives after the store has made it.
const CONVERSION_ANSWER: Duration = Duration::from_secs(1);

/// The variable state of a hold. Methods get the present moment as an argument.
#[derive(Debug)]
pub(crate) struct Validity {
    /// Time that the key stays closed after a loss.
    lock_delay: Duration,
    deadline: Moment,
    /// When the last confirmed request was sent.
    confirmed: Moment,
    /// The guard's part of the ttl granted then, which may be less than requested.
    ttl: Duration,
    /// When the next renewal is due.
    renewal_due: Moment,
    end: Option<LossReason>,
    /// True if the hold was valid until it was released or its client was shut down.
    is_given_back: bool,
    /// True once a guard existed.
    granted: bool,
    /// After the end: until when the store keeps the key closed, if it does not open at once.
    closed_until: Option<Moment>,
    /// When the minimum hold is over, if there is one.
    kept_until: Option<Moment>,
    /// The present guard's number, which changes when the hold is handed on.
    generation: GuardGeneration,
    /// When that guard got the hold.
    turn_began: Moment,
    /// When that guard reaches its maximum time.
    turn_ends: Option<Moment>,
    renewing: bool,
    /// True if a renewal was ever sent.
    was_renewed: bool,
    /// True if the key changed after the pending or last renewal was sent.
    recheck: bool,
    /// A limit on the answers to requests sent before a given moment.
    limit: Option<Limit>,
    /// True while the hold is being converted, so that the store may have a new claim instead.
    converting: bool,
    /// When the store first missed the hold during its conversion.
    missed: Option<Moment>,
}

/// The latest deadline that requests sent before `since` can give.
#[derive(Clone, Copy, Debug)]
struct Limit {
    since: Moment,
    until: Moment,
}

/// The last grant or renewal, with the moment its request was sent.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Confirmation {
    sent: Moment,
    ttl: Duration,
    renewal_due: Moment,
    deadline: Moment,
}

/// The number of a guard in the sequence of a hold's guards.
pub(crate) type GuardGeneration = u64;

/// The result of a validity check.
pub(crate) enum Check {
    /// Valid until this moment.
    Valid(Moment),
    /// The hold had ended before.
    Ended(LossReason),
    /// This check has ended the hold; notify its waiters.
    EndsNow(LossReason),
}

/// The result of a confirmed renewal.
pub(crate) struct Confirmed {
    /// True if its request was sent after the last confirmed one.
    pub(crate) is_news: bool,
    /// True if waiting tasks must recheck: the renewal was overdue, or the deadline is earlier now.
    pub(crate) is_to_be_told: bool,
    /// When the next renewal is due.
    pub(crate) renewal_due: Moment,
}

impl Validity {
    /// Creates the validity of a claim without a grant.
    pub(crate) fn none(now: Moment, id: &HoldId) -> Self {
        Self {
            lock_delay: id.lock_delay(),
            deadline: now,
            confirmed: now,
            ttl: Duration::ZERO,
            renewal_due: now,
            end: None,
            is_given_back: false,
            granted: false,
            closed_until: None,
            kept_until: None,
            generation: 0,
            turn_began: now,
            turn_ends: None,
            renewing: false,
            was_renewed: false,
            recheck: false,
            limit: None,
            converting: false,
            missed: None,
        }
    }

    /// Creates the validity of a member, whose shared hold has `confirmation`.
    pub(crate) fn of_member(now: Moment, id: &HoldId, confirmation: Confirmation) -> Self {
        let mut member = Self::none(now, id);
        member.granted = true;
        member.take_over(confirmation);
        member
    }

    /// Starts a grant of `ttl` to a request sent at `sent`, with a minimum hold, and a guard's turn
    /// of at most `max_hold`.
    pub(crate) fn start(
        &mut self,
        now: Moment,
        (sent, ttl): (Moment, Duration),
        min_hold: Duration,
        max_hold: Option<Duration>,
    ) {
        self.kept_until = (!min_hold.is_zero()).then(|| now.plus(min_hold));
        self.begin_turn(now, max_hold);
        self.granted = true;
        self.confirmed = sent;
        self.confirm(sent, ttl);
    }

    /// Checks the hold, for the guard of `generation` if one is given, and ends it if it is due.
    ///
    /// Reading a deadline that has passed makes the loss final: no later renewal revives the hold.
    pub(crate) fn check(&mut self, now: Moment, generation: Option<GuardGeneration>) -> Check {
        if generation.is_some_and(|generation| generation != self.generation) {
            return Check::Ended(LossReason::Released);
        }
        if let Some(reason) = self.end {
            return Check::Ended(reason);
        }
        let (ends, reason) = self.valid_until();
        if now < ends {
            return Check::Valid(ends);
        }
        self.end(now, reason);
        Check::EndsNow(reason)
    }

    /// Ends the hold and returns true, unless it has ended before, whose reason stays.
    ///
    /// A guard that was lost, rather than released while valid, keeps the key closed for its lock
    /// delay. Each end keeps it closed until the minimum hold is over.
    pub(crate) fn end(&mut self, now: Moment, reason: LossReason) -> bool {
        if self.end.is_some() {
            return false;
        }
        self.end = Some(reason);
        let (valid_until, _) = self.valid_until();
        let is_given_back = matches!(reason, LossReason::Released | LossReason::Closed);
        self.is_given_back = is_given_back && now < valid_until;
        let is_delayed = self.granted && !self.is_given_back && !self.lock_delay.is_zero();
        let delayed = is_delayed.then(|| now.min(valid_until).plus(self.lock_delay));
        let kept = self.kept_until.filter(|until| now < *until);
        self.closed_until = delayed.max(kept);
        true
    }

    /// Returns what is left of the minimum hold.
    pub(crate) fn min_hold_left(&self, now: Moment) -> Duration {
        self.kept_until
            .map_or(Duration::ZERO, |until| until.since(now))
    }

    /// Returns true if the hold was released, or its client was shut down, while it was valid.
    pub(crate) fn is_given_back(&self) -> bool {
        self.is_given_back
    }

    /// Ends the guard's turn and starts the next, of at most `max_hold`; `None` if the hold has
    /// ended.
    pub(crate) fn next_turn(
        &mut self,
        now: Moment,
        max_hold: Option<Duration>,
    ) -> Option<GuardGeneration> {
        if self.end.is_some() {
            return None;
        }
        self.begin_turn(now, max_hold);
        self.generation += 1;
        Some(self.generation)
    }

    fn begin_turn(&mut self, now: Moment, max_hold: Option<Duration>) {
        self.turn_began = now;
        self.turn_ends = max_hold.map(|limit| now.plus(limit));
    }

    /// Limits the present guard's time to `max_hold` from now on.
    pub(crate) fn hold_at_most(&mut self, now: Moment, max_hold: Duration) {
        self.turn_ends = Some(now.plus(max_hold));
    }

    /// Applies the answer to a renewal sent at `sent`.
    pub(crate) fn renewed(&mut self, now: Moment, sent: Moment, ttl: Duration) -> Confirmed {
        let (was_overdue, confirmed) = (self.overdue_from() <= now, self.confirmed);
        let deadline = self.deadline;
        self.renewing = false;
        self.confirm(sent, ttl);
        Confirmed {
            is_news: sent > confirmed,
            is_to_be_told: was_overdue || self.deadline < deadline,
            renewal_due: self.renewal_due,
        }
    }

    /// Copies the confirmation of the shared hold to this member. Returns true if waiting tasks
    /// must recheck.
    pub(crate) fn follow(&mut self, now: Moment, whole: Confirmation) -> bool {
        let (was_overdue, deadline) = (self.overdue_from() <= now, self.deadline);
        self.take_over(whole);
        was_overdue || self.deadline < deadline
    }

    fn take_over(&mut self, whole: Confirmation) {
        self.confirmed = whole.sent;
        self.ttl = whole.ttl;
        self.renewal_due = whole.renewal_due;
        self.deadline = whole.deadline;
    }

    /// Applies the confirmation with the latest `sent`, even if it is shorter. An answer to an
    /// earlier request changes nothing.
    fn confirm(&mut self, sent: Moment, ttl: Duration) {
        if sent < self.confirmed {
            return;
        }
        self.confirmed = sent;
        self.ttl = ttl;
        self.renewal_due = renewal_due(sent, ttl);
        self.deadline = self.limited(sent, deadline(sent, ttl));
    }

    pub(crate) fn confirmation(&self) -> Confirmation {
        Confirmation {
            sent: self.confirmed,
            ttl: self.ttl,
            renewal_due: self.renewal_due,
            deadline: self.deadline,
        }
    }

    /// Returns the time since the last confirmed request was sent.
    pub(crate) fn unconfirmed_for(&self, now: Moment) -> Duration {
        now.since(self.confirmed)
    }

    /// Returns when the guard ends without a renewal, and for what reason.
    fn valid_until(&self) -> (Moment, LossReason) {
        match self.turn_ends {
            Some(ends) if ends < self.deadline => (ends, LossReason::TooLong),
            Some(_) | None => (self.deadline, LossReason::Expired),
        }
    }

    /// Limits requests sent before `since` to `ttl` from then on. Returns true if a guard has the
    /// hold.
    pub(crate) fn limit(&mut self, since: Moment, ttl: Duration) -> bool {
        let until = deadline(since, ttl);
        // Keep an earlier limit until a later request is answered: the store may have acted on
        // either.
        let until = self.limit.map_or(until, |limit| limit.until.min(until));
        self.limit = Some(Limit { since, until });
        self.deadline = self.deadline.min(until);
        self.granted && self.end.is_none()
    }

    /// Returns `deadline`, capped by the limit if the request was sent before it.
    fn limited(&mut self, sent: Moment, deadline: Moment) -> Moment {
        match self.limit {
            Some(limit) if sent < limit.since => deadline.min(limit.until),
            Some(_) => {
                self.limit = None;
                deadline
            }
            None => deadline,
        }
    }

    /// Starts a renewal; false while one is pending.
    pub(crate) fn begin_renewal(&mut self) -> bool {
        if self.renewing {
            return false;
        }
        (self.renewing, self.was_renewed, self.recheck) = (true, true, false);
        true
    }

    /// Makes the hold due again after a renewal with an unknown outcome.
    pub(crate) fn renewal_failed(&mut self) {
        self.renewing = false;
    }

    /// Returns true if a renewal was ever sent, even if it is still unanswered.
    pub(crate) fn was_renewed(&self) -> bool {
        self.was_renewed
    }

    /// Records a change of the key on the store.
    pub(crate) fn mark_recheck(&mut self) {
        self.recheck = true;
    }

    /// Returns true if the key changed since the last renewal was sent.
    pub(crate) fn needs_recheck(&self) -> bool {
        self.recheck
    }

    /// Returns when to renew after a change of the key. A pause after the last confirmation keeps a
    /// key that keeps changing from being renewed all the time.
    pub(crate) fn next_recheck(&self, now: Moment) -> Moment {
        let shortest = RECHECK_PAUSE_MIN.min(self.ttl / 4);
        let pause = (self.ttl / 30).clamp(shortest, RECHECK_PAUSE_MAX);
        now.max(self.confirmed.plus(pause))
    }

    /// Notes that a conversion begins or ends.
    pub(crate) fn set_converting(&mut self, converting: bool) {
        self.converting = converting;
        self.missed = None;
    }

    /// Notes that the store has missed the hold. Returns true if a conversion may be the reason.
    pub(crate) fn is_missed_in_conversion(&mut self, now: Moment) -> bool {
        self.recheck = true;
        let missed = *self.missed.get_or_insert(now);
        self.converting && now.since(missed) < CONVERSION_ANSWER
    }

    /// Returns what is left of the present guard's maximum time, if it has one.
    pub(crate) fn turn_left(&self, now: Moment) -> Option<Duration> {
        self.turn_ends.map(|ends| ends.since(now))
    }

    /// Returns the state of a hold valid until `deadline`, and when it next changes without an
    /// event.
    pub(crate) fn state(&self, now: Moment, deadline: Moment) -> (HoldState, Moment) {
        let remaining = deadline.since(now);
        let overdue_from = self.overdue_from();
        if now < overdue_from {
            return (HoldState::Held { remaining }, overdue_from.min(deadline));
        }
        let overdue = now.since(self.renewal_due);
        (HoldState::Suspect { overdue, remaining }, deadline)
    }

    /// Returns when the renewal is overdue: at half of the ttl, after it was sent at a third.
    fn overdue_from(&self) -> Moment {
        self.renewal_due
            .plus(self.renewal_due.since(self.confirmed) / 2)
    }

    /// Returns the reason of the end; `None` while the hold is valid.
    pub(crate) fn reason(&self) -> Option<LossReason> {
        self.end
    }

    /// Returns when the key of an ended hold opens, if it does not open at once.
    pub(crate) fn closed_until(&self) -> Option<Moment> {
        self.closed_until
    }

    /// Returns true once the hold has ended and its key may open.
    pub(crate) fn is_over(&self, now: Moment) -> bool {
        self.end.is_some() && self.closed_until.is_none_or(|until| now >= until)
    }

    /// Returns the guard's part of the last granted ttl; `None` before a grant.
    pub(crate) fn granted_ttl(&self) -> Option<Duration> {
        self.granted.then_some(self.ttl)
    }

    /// Returns when the present guard reaches its maximum time.
    pub(crate) fn turn_ends(&self) -> Option<Moment> {
        self.turn_ends
    }

    /// Returns the time that the present guard has had the hold.
    pub(crate) fn held_for(&self, now: Moment) -> Duration {
        now.since(self.turn_began)
    }

    /// Returns true if no renewal is due, so that most of the granted time is left.
    pub(crate) fn is_fresh(&self, now: Moment) -> bool {
        self.deadline.since(now) >= self.ttl * 2 / 3
    }
}

/// Bounds of the margin for late timers. Timers have a resolution of 1 ms, and a busy machine runs
/// them and the tasks that they wake late.
const LATENESS_MIN: Duration = Duration::from_millis(10);
const LATENESS_MAX: Duration = Duration::from_millis(50);

/// Returns the deadline of a hold for `ttl` from `sent`. A margin before the store's expiry covers
/// clock rates that differ by up to 1 %, and late timers.
fn deadline(sent: Moment, ttl: Duration) -> Moment {
    let drift = ttl / 100;
    let lateness = (ttl / 20).clamp(LATENESS_MIN, LATENESS_MAX).min(ttl / 2);
    sent.plus(ttl - drift - lateness)
}

/// Returns when to renew a hold for `ttl` from `sent`. A third of the ttl leaves time for two
/// failures.
pub(crate) fn renewal_due(sent: Moment, ttl: Duration) -> Moment {
    sent.plus(ttl / 3)
}
