//! Until when a hold is valid, why it ended, and until when its key stays closed after that: a
//! state machine without a clock, a lock or a store.

use std::time::Duration;

use crate::backend::{HoldId, Moment};
use crate::hold::loss_reason::LossReason;
use crate::hold::state::HoldState;

/// The time that a hold is left alone after it was confirmed, although its key changes: a thirtieth
/// of its ttl within these.
const RECHECK_PAUSE_MIN: Duration = Duration::from_millis(10);
const RECHECK_PAUSE_MAX: Duration = Duration::from_secs(1);

/// The state that changes in the life of a hold. Each method is told the present moment.
#[derive(Debug)]
pub(crate) struct Validity {
    /// The time that the key stays closed after a loss.
    lock_delay: Duration,
    deadline: Moment,
    /// When the request was sent that won or renewed it last.
    confirmed: Moment,
    /// The part for its guard of the ttl that the store granted then, which may be less than was
    /// asked for.
    ttl: Duration,
    /// When the next renewal is due.
    renewal_due: Moment,
    end: Option<LossReason>,
    /// True if it has had a guard.
    granted: bool,
    /// Until when the store is to keep the key closed, after a loss.
    closed_until: Option<Moment>,
    /// Which guard the hold belongs to: it changes when it is handed on.
    generation: GuardGeneration,
    /// Since when that guard has it.
    turn_began: Moment,
    /// When that guard has had it for as long as it may.
    turn_ends: Option<Moment>,
    renewing: bool,
    /// True if a renewal was ever sent.
    was_renewed: bool,
    /// True if something happened to the key that a renewal under way may not have seen.
    recheck: bool,
    /// A bound for the answers to requests that were sent before some moment.
    limit: Option<Limit>,
}

/// The end of the validity that requests sent before `since` brought, at the latest.
#[derive(Clone, Copy, Debug)]
struct Limit {
    since: Moment,
    until: Moment,
}

/// The last grant or renewal, and when its request was sent.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Confirmation {
    sent: Moment,
    ttl: Duration,
    renewal_due: Moment,
    deadline: Moment,
}

/// Counts the guards that a hold belonged to, one after the other.
pub(crate) type GuardGeneration = u64;

/// The answer to whether a hold is valid.
pub(crate) enum Check {
    /// Until then.
    Valid(Moment),
    /// It had ended before.
    Ended(LossReason),
    /// It has ended by this, and that is to be told.
    EndsNow(LossReason),
}

/// The outcome of a confirmed renewal.
pub(crate) struct Confirmed {
    /// True if it was sent after what was confirmed before.
    pub(crate) is_news: bool,
    /// True if those who wait for a change have to look: it was overdue, or its deadline is earlier
    /// than before.
    pub(crate) is_to_be_told: bool,
    /// When the next one is due.
    pub(crate) renewal_due: Moment,
}

impl Validity {
    /// Returns that of a claim, which was not granted yet.
    pub(crate) fn none(now: Moment, id: &HoldId) -> Self {
        Self {
            lock_delay: id.lock_delay(),
            deadline: now,
            confirmed: now,
            ttl: Duration::ZERO,
            renewal_due: now,
            end: None,
            granted: false,
            closed_until: None,
            generation: 0,
            turn_began: now,
            turn_ends: None,
            renewing: false,
            was_renewed: false,
            recheck: false,
            limit: None,
        }
    }

    /// Returns that of a member of another hold, which was granted `confirmation`.
    pub(crate) fn of_member(now: Moment, id: &HoldId, confirmation: Confirmation) -> Self {
        let mut member = Self::none(now, id);
        member.granted = true;
        member.take_over(confirmation);
        member
    }

    /// Starts the validity that a grant of `ttl` brought, whose request was `sent` then, and a turn
    /// of `max_hold` at most.
    pub(crate) fn start(
        &mut self,
        now: Moment,
        (sent, ttl): (Moment, Duration),
        max_hold: Option<Duration>,
    ) {
        self.begin_turn(now, max_hold);
        self.granted = true;
        self.confirmed = sent;
        self.confirm(sent, ttl);
    }

    /// Ends the hold if its time is over; it is checked for the guard of a `generation`, if one is
    /// given. Reading a deadline that has passed makes the loss final: no later renewal brings the
    /// hold back.
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

    /// Ends the hold; the first reason stays. Returns true if this has ended it. A guard that was
    /// lost, and not given back while it was valid, leaves the key closed for its lock delay.
    pub(crate) fn end(&mut self, now: Moment, reason: LossReason) -> bool {
        if self.end.is_some() {
            return false;
        }
        self.end = Some(reason);
        let (valid_until, _) = self.valid_until();
        let is_given_back = matches!(reason, LossReason::Released | LossReason::Closed);
        let is_clean = is_given_back && now < valid_until;
        if self.granted && !is_clean && !self.lock_delay.is_zero() {
            self.closed_until = Some(now.min(valid_until).plus(self.lock_delay));
        }
        true
    }

    /// Ends the turn of the guard and starts the next guard's, of `max_hold` at most; `None` if the
    /// hold has ended.
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

    /// Limits for how long the present guard has it, from now on.
    pub(crate) fn hold_at_most(&mut self, now: Moment, max_hold: Duration) {
        self.turn_ends = Some(now.plus(max_hold));
    }

    /// Takes the answer to a renewal that was `sent` then.
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

    /// Takes over the last confirmation of the hold that this is a member of. Returns true if those
    /// who wait for a change have to look.
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

    /// The latest confirmation counts, be it shorter or longer; one that was sent before what is
    /// confirmed already changes nothing.
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

    /// When its guard ends by itself, and why.
    fn valid_until(&self) -> (Moment, LossReason) {
        match self.turn_ends {
            Some(ends) if ends < self.deadline => (ends, LossReason::TooLong),
            Some(_) | None => (self.deadline, LossReason::Expired),
        }
    }

    /// Has no request that was sent before `since` count for longer than `ttl` from then on.
    /// Returns true if a guard has the hold.
    pub(crate) fn limit(&mut self, since: Moment, ttl: Duration) -> bool {
        let until = deadline(since, ttl);
        // An earlier limit stays until a later request was answered: the store may have acted on
        // either.
        let until = self.limit.map_or(until, |limit| limit.until.min(until));
        self.limit = Some(Limit { since, until });
        self.deadline = self.deadline.min(until);
        self.granted && self.end.is_none()
    }

    /// Returns `deadline`, or the limit of a request that was `sent` before it was set.
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

    /// Begins a renewal; `false` while one is under way.
    pub(crate) fn begin_renewal(&mut self) -> bool {
        if self.renewing {
            return false;
        }
        (self.renewing, self.was_renewed, self.recheck) = (true, true, false);
        true
    }

    /// Makes the hold due for another renewal after one with an unknown outcome.
    pub(crate) fn renewal_failed(&mut self) {
        self.renewing = false;
    }

    /// Returns true if a renewal was ever sent; the first one may be unanswered when its key
    /// changes.
    pub(crate) fn was_renewed(&self) -> bool {
        self.was_renewed
    }

    /// Notes that something happened to the key on the store.
    pub(crate) fn mark_recheck(&mut self) {
        self.recheck = true;
    }

    /// Returns true if something happened since the last renewal was sent.
    pub(crate) fn needs_recheck(&self) -> bool {
        self.recheck
    }

    /// Returns when to ask the store whether it is still there, once something has happened to its
    /// key: at once, but not again and again for a key that changes all the time.
    pub(crate) fn next_recheck(&self, now: Moment) -> Moment {
        let shortest = RECHECK_PAUSE_MIN.min(self.ttl / 4);
        let pause = (self.ttl / 30).clamp(shortest, RECHECK_PAUSE_MAX);
        now.max(self.confirmed.plus(pause))
    }

    /// Returns the state of a hold that is valid until `deadline`, and when it changes without an
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

    /// From when on a renewal has had half of the time again that it was waited for: it is sent at
    /// a third of the ttl, and should be answered by its half.
    fn overdue_from(&self) -> Moment {
        self.renewal_due
            .plus(self.renewal_due.since(self.confirmed) / 2)
    }

    /// Returns why it ended, if it has.
    pub(crate) fn reason(&self) -> Option<LossReason> {
        self.end
    }

    /// Until when its lock delay keeps the key closed, if it has ended so.
    pub(crate) fn closed_until(&self) -> Option<Moment> {
        self.closed_until
    }

    /// Returns true if it has ended, and its lock delay is over.
    pub(crate) fn is_over(&self, now: Moment) -> bool {
        self.end.is_some() && self.closed_until.is_none_or(|until| now >= until)
    }

    /// Returns what the guard has of the ttl that the store granted last, if it has granted any.
    pub(crate) fn granted_ttl(&self) -> Option<Duration> {
        self.granted.then_some(self.ttl)
    }

    /// Returns when its guard will have had it for as long as it may.
    pub(crate) fn turn_ends(&self) -> Option<Moment> {
        self.turn_ends
    }

    /// Returns for how long its present guard has had it.
    pub(crate) fn held_for(&self, now: Moment) -> Duration {
        now.since(self.turn_began)
    }

    /// Returns true if it was granted or renewed so lately that no renewal is due: most of what the
    /// store granted is ahead.
    pub(crate) fn is_fresh(&self, now: Moment) -> bool {
        self.deadline.since(now) >= self.ttl * 2 / 3
    }
}

/// The time by which a hold ends before the store's expiry, so that its end is told by then: timers
/// have steps of 1 ms, and a busy machine lets them and the tasks that they wake run late.
const LATENESS_MIN: Duration = Duration::from_millis(10);
const LATENESS_MAX: Duration = Duration::from_millis(50);

/// Returns when a hold for `ttl` from `sent` on stops being valid: a margin before the store's own
/// expiry, for clocks that run at rates up to 1 % apart, and for what comes late.
fn deadline(sent: Moment, ttl: Duration) -> Moment {
    let drift = ttl / 100;
    let lateness = (ttl / 20).clamp(LATENESS_MIN, LATENESS_MAX).min(ttl / 2);
    sent.plus(ttl - drift - lateness)
}

/// Returns when a hold for `ttl` from `sent` on is renewed: a third of the ttl leaves room for two
/// failures.
pub(crate) fn renewal_due(sent: Moment, ttl: Duration) -> Moment {
    sent.plus(ttl / 3)
}
