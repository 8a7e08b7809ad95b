//! [`HandOff`]: a backend whose exclusive locks are handed on inside the process.

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use tokio::time::{Instant, sleep_until, timeout_at};

use super::desk::{Arrival, Baton, Desks, Place};
use crate::{Capabilities, DistributedLock, LockGuard, LockRequest, Mode, Result, Wait};

/// How long a process stays away from the store after a spent budget, at most.
const REST_MAX: Duration = Duration::from_millis(10);

/// Any backend, with hot keys handed on inside this process.
///
/// The process asks the store once for a key; when the lock is released while others of this
/// process wait for it, it goes to the first of them without a round trip, with a fencing token of
/// its own. After the budget it goes back to the store, so that other processes get their turn.
/// Shared locks and permits go to the store each time.
///
/// It trades the order among processes, where the store keeps one, for speed: within a process
/// waiters are served in order, and no process waits for longer than the others' budgets.
///
/// ```
/// use std::sync::Arc;
/// use std::time::Duration;
/// use lock_core::{DistributedLockExt, HandOff, MemoryLock};
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> lock_core::Result<()> {
/// let locks = HandOff::new(Arc::new(MemoryLock::new()), Duration::from_millis(10));
/// let first = locks.lock("hot").await?;
/// let token = first.token();
/// let (second, released) = tokio::join!(locks.lock("hot"), first.release());
/// released?;
/// assert_eq!(second?.token().value(), token.value() + 1);
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Debug)]
pub struct HandOff {
    locks: Arc<dyn DistributedLock>,
    desks: Arc<Desks>,
}

impl HandOff {
    /// The budget of a client that is configured without one: 10 milliseconds.
    pub const DEFAULT_BUDGET: Duration = Duration::from_millis(10);

    /// Hands each hold on for at most `budget`. A budget of zero hands nothing on, but still lines
    /// the waiters of the process up.
    pub fn new(locks: Arc<dyn DistributedLock>, budget: Duration) -> Self {
        // Where the store keeps the order, asking again puts us behind the others anyway.
        let rest = if locks.capabilities().fair {
            Duration::ZERO
        } else {
            (budget / 4).min(REST_MAX)
        };
        Self {
            locks,
            desks: Arc::new(Desks::new(budget, rest)),
        }
    }

    /// Waits for the first place, or for the held key; `None` when the wait ran out.
    async fn stand_in_line(&self, request: &LockRequest, ends: Option<Instant>) -> Option<Baton> {
        loop {
            let receiver = match self.desks.arrive(request) {
                Arrival::First(place) => return Some(Baton::Place(place)),
                Arrival::Behind(receiver) => receiver,
            };
            let received = match ends {
                None => receiver.await,
                Some(ends) => timeout_at(ends, receiver).await.ok()?,
            };
            // Without a baton: the hold was lost while it was being handed to us.
            if let Ok(baton) = received {
                return Some(baton);
            }
        }
    }

    async fn claim(&self, request: LockRequest, place: Place) -> Result<Option<LockGuard>> {
        if let Some(rested) = place.rests_until {
            let ends = request.wait().deadline();
            sleep_until(ends.map_or(rested, |ends| ends.min(rested))).await;
        }
        let guard = self.locks.acquire(request).await?;
        Ok(guard.map(|guard| guard.at(place.holding())))
    }
}

#[async_trait]
impl DistributedLock for HandOff {
    fn capabilities(&self) -> Capabilities {
        // Only the first waiter of a process stands in the store's queue; the others come before
        // waiters of other processes that came earlier.
        let mut capabilities = self.locks.capabilities();
        capabilities.fair = false;
        capabilities
    }

    async fn acquire(&self, request: LockRequest) -> Result<Option<LockGuard>> {
        let wait = request.wait();
        if request.mode != Mode::Exclusive || wait == Wait::No {
            return self.locks.acquire(request).await;
        }
        loop {
            return match self.stand_in_line(&request, wait.deadline()).await {
                Some(Baton::Guard(guard)) => {
                    let guard = guard.received();
                    if !guard.is_held() {
                        // It was lost before we looked; claiming anew tells why, if it is for good.
                        continue;
                    }
                    Ok(Some(guard))
                }
                Some(Baton::Place(place)) => self.claim(request, place).await,
                None if self.desks.is_held(&request.key) => Ok(None),
                // Nobody here holds it: only the store can say whether it is busy or broken.
                None => self.locks.acquire(request).await,
            };
        }
    }

    async fn shutdown(&self, within: Duration) -> Result<()> {
        // The line moves on as each place in it learns that the store's client is closed.
        self.locks.shutdown(within).await
    }
}
