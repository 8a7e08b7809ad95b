//! The state of a hold: held, suspect, or lost.

use std::fmt;
use std::time::Duration;

use crate::hold::loss_reason::LossReason;

/// The state of a hold at a moment, by the local clock.
///
/// [`Suspect`](Self::Suspect) leaves time to act while the lock is still held: a task can finish a
/// step, postpone the next one, or save its progress.
///
/// ```
/// use lock_core::{DistributedLockExt, HoldState, MemoryLock};
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> lock_core::Result<()> {
/// let guard = MemoryLock::new().lock("import").await?;
/// match guard.state() {
///     HoldState::Held { .. } => {}
///     HoldState::Suspect { remaining, .. } => println!("save within {remaining:?}"),
///     HoldState::Lost(reason) => println!("stop: {reason}"),
/// }
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum HoldState {
    /// Held, and renewed in time.
    Held {
        /// The time that the lock stays held without another renewal.
        remaining: Duration,
    },
    /// Held, but the renewal is unanswered at half of the ttl: the store is slow or unreachable.
    /// The next confirmed renewal leads back to `Held`; without one the lock is lost.
    Suspect {
        /// The time since the renewal was due, which is at a third of the ttl.
        overdue: Duration,
        /// The time that the lock stays held without a renewal.
        remaining: Duration,
    },
    /// No longer held.
    Lost(LossReason),
}

impl HoldState {
    /// Returns true if the lock is held, including [`Suspect`](Self::Suspect).
    pub fn is_held(self) -> bool {
        !matches!(self, Self::Lost(_))
    }

    /// Returns true if the two states differ in durations only.
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
