//! The state of a hold: held, in doubt, or lost.

use std::fmt;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use futures_core::Stream;
use tokio::runtime::Handle;

use crate::LossReason;
use crate::hold::Hold;
use crate::hold::validity::GuardGeneration;

/// The state of a hold at a moment, by the local clock.
///
/// Between fine and lost there is time to act: whoever sees [`Suspect`](Self::Suspect) can finish a step, put
/// off the next one, or write down how far it is, all while the lock is still held.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum HoldState {
    /// Held, and renewed in time.
    Held {
        /// The time that it stays held without another renewal.
        remaining: Duration,
    },
    /// Held, but nothing was heard of its renewal for half of the ttl: the store is slow, silent or out of
    /// reach. It is held again when a renewal is confirmed, and lost when none is.
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

impl Hold {
    /// Waits until the hold stands in another way than `last`; `None` when that was its end.
    pub(crate) async fn next_state(
        &self,
        turn: GuardGeneration,
        last: Option<HoldState>,
    ) -> Option<HoldState> {
        if matches!(last, Some(HoldState::Lost(_))) {
            return None;
        }
        loop {
            let changed = self.changed();
            let (state, changes) = self.state_in(turn);
            if last.is_none_or(|last| !last.is_alike(state)) {
                return Some(state);
            }
            let changes = changes.unwrap_or(self.keeper.clock.now());
            tokio::select! {
                () = changed => {}
                () = self.keeper.clock.sleep_until(changes), if Handle::try_current().is_ok() => {}
            }
        }
    }
}

/// The states of a hold, one after the other: first how it stands, then each change, last
/// [`Lost`](HoldState::Lost).
///
/// It outlives the guard and never keeps the lock. Changes that come and go while nobody asks are not
/// remembered: what is told was so when it was asked for.
///
/// ```
/// use lock_core::{DistributedLockExt, HoldState, MemoryLock};
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> lock_core::Result<()> {
/// let guard = MemoryLock::new().lock("import").await?;
/// let mut states = guard.watch().states();
/// assert!(matches!(states.next().await, Some(HoldState::Held { .. })));
/// guard.release().await?;
/// assert!(matches!(states.next().await, Some(HoldState::Lost(_))));
/// assert_eq!(states.next().await, None);
/// # Ok(())
/// # }
/// ```
pub struct HoldStates {
    hold: Arc<Hold>,
    turn: GuardGeneration,
    last: Option<HoldState>,
    /// The wait that is under way.
    next: Option<Pin<Box<dyn Future<Output = Option<HoldState>> + Send + Sync>>>,
}

impl HoldStates {
    pub(crate) fn new(hold: Arc<Hold>, turn: GuardGeneration) -> Self {
        Self {
            hold,
            turn,
            last: None,
            next: None,
        }
    }

    /// The next state; `None` after the end.
    ///
    /// # Cancel safety
    ///
    /// Cancel safe: a change that was not received is told the next time.
    pub async fn next(&mut self) -> Option<HoldState> {
        let next = self.hold.next_state(self.turn, self.last).await?;
        self.last = Some(next);
        Some(next)
    }
}

impl Stream for HoldStates {
    type Item = HoldState;

    fn poll_next(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<HoldState>> {
        let states = self.get_mut();
        let next = states.next.get_or_insert_with(|| {
            let (hold, turn, last) = (Arc::clone(&states.hold), states.turn, states.last);
            Box::pin(async move { hold.next_state(turn, last).await })
        });
        let next = ready!(next.as_mut().poll(context));
        states.next = None;
        states.last = next.or(states.last);
        Poll::Ready(next)
    }
}

impl fmt::Debug for HoldStates {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("HoldStates")
            .field("key", self.hold.id.key())
            .field("last", &self.last)
            .finish_non_exhaustive()
    }
}
