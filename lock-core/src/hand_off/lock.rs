//! [`HandOff`]: a backend with few claims on the store and many waiters in front of it.

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;

use super::queues::HandOffQueues;
use super::waiting::{WaitOutcome, Waiting};
use crate::backend::{Keeper, KeeperRuntime};
use crate::waiter::watchdog::Watchdog;
use crate::{Capabilities, DistributedLock, LockGuard, LockRequest, Result, Wait};

/// The time that a process stays away from the store after a spent budget, at most.
const REST_MAX: Duration = Duration::from_millis(10);

/// Any backend, with the waiters of this process in one queue for each key, and few claims on the
/// store.
///
/// Only the first waiter of a key claims it on the store; those behind it cost the store nothing.
///
/// - **Exclusive**: a lock that is released while others of this process wait for it goes to the
///   first of them without a round trip, with a fencing token of its own. After the budget it goes
///   back to the store, so that other processes get their turn.
/// - **Shared**: readers with the same ttl and lock delay that wait while one of them claims share
///   its grant, each with a guard and a token of its own. The lock is given back when the last of
///   these guards has ended, and its loss is the loss of them all. No reader joins what is already
///   granted.
/// - **Permits**: each permit is a grant of its own, and one more is claimed while a task waits.
///   None is handed on, since its token would be less than those of permits that were granted after
///   it.
///
/// Within a process all waiters of a key are served in order of arrival, whatever their mode:
/// neither readers nor writers can shut each other out. Only what asks without waiting passes them
/// by. It trades the order among processes, where the store keeps one, for speed: no process waits
/// for longer than the others' budgets.
///
/// A waiter whose future is not polled does not hold up the others, see
/// [`DistributedLock::acquire`].
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
    queues: Arc<HandOffQueues>,
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
        let watchdog = locks
            .keeper()
            .map_or_else(|| Watchdog::new(KeeperRuntime::caller()), Keeper::watchdog);
        Self {
            queues: Arc::new(HandOffQueues::new(locks, budget, rest, watchdog)),
        }
    }
}

#[async_trait]
impl DistributedLock for HandOff {
    fn capabilities(&self) -> Capabilities {
        // Only the first waiter of a process is in the store's queue; the others come before
        // waiters of other processes that came earlier.
        let mut capabilities = self.queues.locks.capabilities();
        capabilities.fair = false;
        capabilities
    }

    fn keeper(&self) -> Option<&Keeper> {
        self.queues.locks.keeper()
    }

    async fn acquire(&self, request: LockRequest) -> Result<Option<LockGuard>> {
        let locks = &self.queues.locks;
        if request.wait() == Wait::No || self.queues.is_refused(&request) {
            return locks.acquire(request).await;
        }
        match Waiting::arrive(&self.queues, &request).outcome().await {
            WaitOutcome::Decided(outcome) => outcome,
            WaitOutcome::TimedOut if self.queues.is_held(&request.key) => Ok(None),
            // No guard of this process holds it: only the store can say whether it is busy or
            // broken.
            WaitOutcome::TimedOut => locks.acquire(request).await,
        }
    }

    async fn shutdown(&self, within: Duration) -> Result<()> {
        // The queue moves on as each driver in it learns that the store's client is closed.
        self.queues.locks.shutdown(within).await
    }
}
