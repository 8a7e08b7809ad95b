//! A stream of a hold's states.

use std::fmt;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};

use futures_core::Stream;

use crate::hold::Hold;
use crate::hold::state::HoldState;
use crate::hold::validity::GuardGeneration;

impl Hold {
    /// Waits until the state differs from `last`; `None` after the end.
    pub(crate) async fn next_state(
        &self,
        generation: GuardGeneration,
        last: Option<HoldState>,
    ) -> Option<HoldState> {
        if matches!(last, Some(HoldState::Lost(_))) {
            return None;
        }
        loop {
            let changed = self.changed();
            let (state, changes) = self.state_in(generation);
            if last.is_none_or(|last| !last.is_alike(state)) {
                return Some(state);
            }
            tokio::select! {
                () = changed => {}
                () = self.sleep_until(changes.unwrap_or(self.clock.now())) => {}
            }
        }
    }
}

/// The states of a hold as a stream: the present one, each change, and finally
/// [`Lost`](HoldState::Lost).
///
/// It outlives the guard and does not keep the lock. It does not buffer: it skips a change that
/// reverts between two calls.
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
    generation: GuardGeneration,
    last: Option<HoldState>,
    /// The pending wait of `poll_next`.
    next: Option<Pin<Box<dyn Future<Output = Option<HoldState>> + Send + Sync>>>,
}

impl HoldStates {
    pub(crate) fn new(hold: Arc<Hold>, generation: GuardGeneration) -> Self {
        Self {
            hold,
            generation,
            last: None,
            next: None,
        }
    }

    /// Returns the next state; `None` after [`Lost`](HoldState::Lost).
    ///
    /// # Cancel safety
    ///
    /// Cancel safe: the next call returns a change that a dropped call missed.
    pub async fn next(&mut self) -> Option<HoldState> {
        let next = self.hold.next_state(self.generation, self.last).await?;
        self.last = Some(next);
        Some(next)
    }
}

impl Stream for HoldStates {
    type Item = HoldState;

    fn poll_next(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<HoldState>> {
        let states = self.get_mut();
        let next = states.next.get_or_insert_with(|| {
            let (hold, generation, last) =
                (Arc::clone(&states.hold), states.generation, states.last);
            Box::pin(async move { hold.next_state(generation, last).await })
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
