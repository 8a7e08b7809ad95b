//! [`HandOff`]: a backend with one queue per key in front of it.

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;

use super::queues::HandOffQueues;
use super::waiting::{WaitOutcome, Waiting};
use crate::backend::{Keeper, KeeperRuntime};
use crate::owner::enter::acquire_for;
use crate::waiter::watchdog::Watchdog;
use crate::{
    Capabilities, DistributedLock, Health, KeyInfo, LockGuard, LockKey, LockRequest, Result, Wait,
};

/// Maximum pause of a process after a spent budget before it claims the key again.
const REST_MAX: Duration = Duration::from_millis(10);

/// A backend whose waiters of this process wait in one queue per key.
///
/// Only the first waiter of a key, the driver, has a claim on the store; waiters behind it cost the
/// store nothing.
///
/// - **Exclusive**: a lock that is released while other tasks of this process wait goes to the
///   first of them. This takes no round trip, and the new guard has its own token. After the budget
///   it is released on the store, so that other processes get their turn.
/// - **Shared**: readers with the same ttl, lock delay and label that wait while one of them claims
///   share its grant, each with its own guard and token. The lock is released when the last of
///   these guards has ended, and its loss ends all of them. No reader joins an existing grant.
/// - **Permits**: each permit is a separate grant, and one more is claimed while a task waits.
///   Permits are not handed on, since the token would be lower than those of permits granted later.
///
/// Within a process all waiters of a key are served in order of arrival, in every mode, so neither
/// readers nor writers starve. Only requests that do not wait bypass the queue. Where the store
/// keeps an order among processes, this wrapper gives it up for speed: a process waits for at most
/// the budgets of the other processes.
///
/// A waiter whose future is not polled does not block other waiters, see
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
    /// The default budget: 10 milliseconds.
    pub const DEFAULT_BUDGET: Duration = Duration::from_millis(10);

    /// Creates the wrapper, which hands each hold on for at most `budget`.
    ///
    /// With a budget of zero it hands nothing on, but still queues the waiters of the process.
    pub fn new(locks: Arc<dyn DistributedLock>, budget: Duration) -> Self {
        // A store that keeps the order puts a new claim of this process last anyway, so no pause is
        // needed.
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
        // Only the first waiter of a process is in the store's queue. Waiters behind it are served
        // before waiters of other processes that arrived earlier.
        let mut capabilities = self.queues.locks.capabilities();
        capabilities.fair = false;
        capabilities
    }

    fn keeper(&self) -> Option<&Keeper> {
        self.queues.locks.keeper()
    }

    async fn acquire(&self, mut request: LockRequest) -> Result<Option<LockGuard>> {
        let owner = request.owner.take();
        let asking = |request| self.acquire_in_turn(request);
        match owner {
            // Boxed, so that waiters without an owner need no memory for it.
            Some(owner) => Box::pin(acquire_for(owner, &self.queues, request, asking)).await,
            None => asking(request).await,
        }
    }

    async fn acquire_together(&self, requests: &[LockRequest]) -> Result<Option<Vec<LockGuard>>> {
        // A waiter of this process comes first.
        let is_in_use = |request: &LockRequest| self.queues.is_in_use(&request.key);
        match requests.iter().any(is_in_use) {
            true => Ok(None),
            false => self.queues.locks.acquire_together(requests).await,
        }
    }

    async fn health(&self) -> Health {
        let health = self.queues.locks.health().await;
        health.with_more_waiters(self.queues.waiters.count())
    }

    async fn inspect_key(&self, key: &LockKey) -> Result<KeyInfo> {
        self.queues.locks.inspect_key(key).await
    }

    async fn shutdown(&self, within: Duration) -> Result<()> {
        // The queue empties as each driver learns that the store's client is closed.
        self.queues.locks.shutdown(within).await
    }
}

impl HandOff {
    async fn acquire_in_turn(&self, request: LockRequest) -> Result<Option<LockGuard>> {
        let locks = &self.queues.locks;
        if request.wait() == Wait::No || self.queues.is_refused(&request) {
            return locks.acquire(request).await;
        }
        let counted = self.queues.waiters.enter(&request);
        match Waiting::arrive(&self.queues, &request).outcome().await {
            WaitOutcome::Decided(outcome) => outcome,
            WaitOutcome::TimedOut if self.queues.is_held(&request.key) => Ok(None),
            // No guard of this process holds the key, so only the store can tell "held" from
            // "unreachable".
            WaitOutcome::TimedOut => {
                drop(counted);
                locks.acquire(request).await
            }
        }
    }
}
