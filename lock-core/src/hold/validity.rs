//! Until when a hold is valid, why it ended, and until when its key stays closed after that.

use std::time::Duration;

use crate::{LossReason, Moment};

/// The state that changes in the life of a hold.
#[derive(Debug)]
pub(crate) struct Validity {
    pub(crate) deadline: Moment,
    /// When the request was sent that won or renewed it last.
    pub(crate) confirmed: Moment,
    /// The part for its guard of the ttl that the store granted then, which may be less than was asked for.
    pub(crate) ttl: Duration,
    /// When the next renewal is due.
    pub(crate) renewal_due: Moment,
    pub(crate) end: Option<LossReason>,
    /// True if it has had a guard.
    pub(crate) granted: bool,
    /// Until when the store is to keep the key closed, after a loss.
    pub(crate) closed_until: Option<Moment>,
    /// Which guard the hold belongs to: it changes when it is handed on.
    pub(crate) turn: GuardGeneration,
    /// Since when that guard has it.
    pub(crate) turn_began: Moment,
    /// When that guard has had it for as long as it may.
    pub(crate) turn_ends: Option<Moment>,
    pub(crate) renewing: bool,
    /// True if a renewal was ever sent.
    pub(crate) was_renewed: bool,
    /// Something happened to the key that a renewal under way may not have seen.
    pub(crate) recheck: bool,
    /// A bound for the answers to requests that were sent before some moment.
    limit: Option<Limit>,
    /// Where the schedule keeps it; only the schedule reads and writes it.
    pub(crate) due: Option<Moment>,
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

impl Validity {
    /// Returns that of a claim, which was not granted yet.
    pub(crate) fn none(now: Moment) -> Self {
        Self {
            deadline: now,
            confirmed: now,
            ttl: Duration::ZERO,
            renewal_due: now,
            end: None,
            granted: false,
            closed_until: None,
            turn: 0,
            turn_began: now,
            turn_ends: None,
            renewing: false,
            was_renewed: false,
            recheck: false,
            limit: None,
            due: None,
        }
    }

    /// Starts the validity that a grant of `ttl` brought, whose request was `sent` then.
    pub(crate) fn start(&mut self, sent: Moment, ttl: Duration) {
        self.granted = true;
        self.confirmed = sent;
        self.confirm(sent, ttl);
    }

    /// Takes the answer to a renewal that was `sent` then. The latest one counts, be it shorter or longer;
    /// one that was sent before what is confirmed already changes nothing.
    pub(crate) fn confirm(&mut self, sent: Moment, ttl: Duration) {
        if sent < self.confirmed {
            return;
        }
        self.confirmed = sent;
        self.ttl = ttl;
        self.renewal_due = renewal_due(sent, ttl);
        self.deadline = self.limited(sent, deadline(sent, ttl));
    }

    /// Takes over the last confirmation of another hold.
    pub(crate) fn follow(&mut self, other: Confirmation) {
        self.confirmed = other.sent;
        self.ttl = other.ttl;
        self.renewal_due = other.renewal_due;
        self.deadline = other.deadline;
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
    pub(crate) fn valid_until(&self) -> (Moment, LossReason) {
        match self.turn_ends {
            Some(ends) if ends < self.deadline => (ends, LossReason::TooLong),
            Some(_) | None => (self.deadline, LossReason::Expired),
        }
    }

    /// Has no request that was sent before `since` count for longer than `ttl` from then on.
    pub(crate) fn limit(&mut self, since: Moment, ttl: Duration) {
        let until = deadline(since, ttl);
        // An earlier limit stays until a later request was answered: the store may have acted on either.
        let until = self.limit.map_or(until, |limit| limit.until.min(until));
        self.limit = Some(Limit { since, until });
        self.deadline = self.deadline.min(until);
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

    /// Notes the end of the hold. A guard that was lost, and not given back while it was valid, leaves the
    /// key closed for `lock_delay`.
    pub(crate) fn end_now(&mut self, now: Moment, reason: LossReason, lock_delay: Duration) {
        self.end = Some(reason);
        let (valid_until, _) = self.valid_until();
        let is_given_back = matches!(reason, LossReason::Released | LossReason::Closed);
        let is_clean = is_given_back && now < valid_until;
        if self.granted && !is_clean && !lock_delay.is_zero() {
            self.closed_until = Some(now.min(valid_until).plus(lock_delay));
        }
    }

    /// From when on a renewal has had half of the time again that it was waited for: it is sent at a third
    /// of the ttl, and should be answered by its half.
    pub(crate) fn overdue_from(&self) -> Moment {
        self.renewal_due
            .plus(self.renewal_due.since(self.confirmed) / 2)
    }
}

/// The next step of the keeper for a hold whose time has come.
pub(crate) enum Step {
    /// Renew it, and look again at its deadline.
    Renew(Moment),
    /// A renewal is under way; look again at the deadline.
    WaitUntil(Moment),
    /// It has ended.
    Forget,
}

/// The outcome of a renewal.
pub(crate) enum Extended {
    /// Held on; the next renewal is due then.
    Until(Moment),
    /// It was an answer to something that was sent before what is confirmed already.
    NotAtAll,
    /// The hold has ended, before or by this.
    Ended,
}

/// The time by which a hold ends before the store's expiry, so that its end is told by then: timers have
/// steps of 1 ms, and a busy machine lets them and the tasks that they wake run late.
const LATENESS_MIN: Duration = Duration::from_millis(10);
const LATENESS_MAX: Duration = Duration::from_millis(50);

/// When a hold for `ttl` from `sent` on stops being valid: a margin before the store's own expiry,
/// for clocks that run at rates up to 1 % apart, and for what comes late.
fn deadline(sent: Moment, ttl: Duration) -> Moment {
    let drift = ttl / 100;
    let lateness = (ttl / 20).clamp(LATENESS_MIN, LATENESS_MAX).min(ttl / 2);
    sent.plus(ttl - drift - lateness)
}

/// Renewing at a third of the ttl leaves room for two failures.
pub(crate) fn renewal_due(sent: Moment, ttl: Duration) -> Moment {
    sent.plus(ttl / 3)
}
