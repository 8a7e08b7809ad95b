//! The state of a hold: held, in doubt, or lost.

use std::fmt;
use std::time::Duration;

use crate::hold::loss_reason::LossReason;

/// The state of a hold at a moment, by the local clock.
///
/// Between fine and lost there is time to act: a task that sees [`Suspect`](Self::Suspect) can
/// finish a step, put off the next one, or write down how far it is, all while the lock is still
/// held.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum HoldState {
    /// Held, and renewed in time.
    Held {
        /// The time that it stays held without another renewal.
        remaining: Duration,
    },
    /// Held, but its renewal has had no answer for half of the ttl: the store is slow, silent or
    /// out of reach. It is held again when a renewal is confirmed, and lost when none is.
    Suspect {
        /// For how long the renewal has been due, which is at a third of the ttl.
        overdue: Duration,
        /// The time that it stays held without a renewal.
        remaining: Duration,
    },
    /// Not held any more.
    Lost(LossReason),
}

impl HoldState {
    /// Returns true if the lock is held, be it in doubt.
    pub fn is_held(self) -> bool {
        !matches!(self, Self::Lost(_))
    }

    /// Returns true if only the durations differ.
    pub(crate) fn is_alike(self, other: Self) -> bool {
        std::mem::discriminant(&self) == std::mem::discriminant(&other)
    }
}

impl fmt::Display for HoldState {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Held { remaining } => write!(f, "held for another {remaining:?}"),
            Self::Suspect { overdue, remaining } => write!(
                f,
                "its renewal is {overdue:?} overdue, held for another {remaining:?}"
            ),
            Self::Lost(reason) => write!(f, "lost: {reason}"),
        }
    }
}
