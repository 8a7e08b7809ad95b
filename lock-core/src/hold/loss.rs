//! The reports of a backend about a hold.

use std::sync::Weak;
use std::time::Duration;

use crate::LossReason;
use crate::backend::Moment;
use crate::hold::Hold;

/// By this a backend reports what it learned by itself: that a session has ended, or is shorter
/// from now on.
#[derive(Clone, Debug)]
pub struct LossSender {
    hold: Weak<Hold>,
}

impl LossSender {
    pub(crate) fn new(hold: Weak<Hold>) -> Self {
        Self { hold }
    }

    /// Returns true if the hold has ended, by whatever, with its lock delay, or will never begin:
    /// then no caller needs what is left of it on the store. A backend whose store keeps things
    /// alive by itself gives it back then, since its guard may never do.
    pub fn is_over(&self) -> bool {
        self.hold.upgrade().is_none_or(|hold| hold.is_over())
    }

    /// Bounds the validity of the hold: the store may keep it for no longer than `ttl` from `since`
    /// on, lock delay included, whatever it has confirmed of requests that were sent before
    /// `since`. It is renewed soon, and what later requests bring counts in full.
    pub fn limit(&self, since: Moment, ttl: Duration) {
        if let Some(hold) = self.hold.upgrade() {
            hold.count_on_at_most(since, ttl);
        }
    }

    /// Declares the hold lost; does nothing when it has ended already.
    pub fn lost(&self, reason: LossReason) {
        if let Some(hold) = self.hold.upgrade() {
            hold.end(reason);
        }
    }
}
