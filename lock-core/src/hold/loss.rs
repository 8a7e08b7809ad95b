//! Reports of a backend about a hold.

use std::sync::Weak;
use std::time::Duration;

use crate::LossReason;
use crate::backend::Moment;
use crate::hold::Hold;

/// Reports to a hold that its session or lease has ended, or ends earlier from now on.
///
/// ```
/// use lock_core::LossReason;
/// use lock_core::backend::LossSender;
///
/// fn on_session_expired(holds: &[LossSender]) {
///     for hold in holds {
///         hold.lost(LossReason::Expired);
///     }
/// }
/// ```
#[derive(Clone, Debug)]
pub struct LossSender {
    hold: Weak<Hold>,
}

impl LossSender {
    pub(crate) fn new(hold: Weak<Hold>) -> Self {
        Self { hold }
    }

    /// Returns true if the hold has ended and its key may open, or if it can never start.
    ///
    /// No caller then needs its claim on the store. A backend whose store keeps claims alive has to
    /// remove the claim at that point, since its guard may never be dropped.
    pub fn is_over(&self) -> bool {
        self.hold.upgrade().is_none_or(|hold| hold.is_over())
    }

    /// Limits the validity of the hold to `ttl` from `since` on, reserve included.
    ///
    /// The limit overrides the store's answers to requests sent before `since`. The hold is renewed
    /// soon, and answers to later requests count in full.
    pub fn limit(&self, since: Moment, ttl: Duration) {
        if let Some(hold) = self.hold.upgrade() {
            hold.limit_validity(since, ttl);
        }
    }

    /// Declares the hold lost; no effect if it has already ended.
    pub fn lost(&self, reason: LossReason) {
        if let Some(hold) = self.hold.upgrade() {
            hold.end_as_gone(reason);
        }
    }
}
