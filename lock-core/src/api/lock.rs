//! The trait that applications call and backends implement.

use std::fmt;
use std::time::Duration;

use async_trait::async_trait;

use crate::backend::Keeper;
use crate::backend::lease_store::no_inspect;
use crate::{
    Capabilities, Error, ErrorKind, Health, KeyInfo, LockGuard, LockKey, LockRequest, Result,
};

/// A lock service: takes locks by key on one store.
///
/// Applications hold it as `Arc<dyn DistributedLock>` and call it through
/// [`DistributedLockExt`](crate::DistributedLockExt). Backends implement it together with
/// [`LeaseStore`](crate::backend::LeaseStore).
///
/// ```
/// use std::sync::Arc;
/// use lock_core::{DistributedLock, DistributedLockExt, MemoryLock};
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> lock_core::Result<()> {
/// let locks: Arc<dyn DistributedLock> = Arc::new(MemoryLock::new());
/// let guard = locks.lock("nightly-report").await?;
/// guard.release().await?;
/// # Ok(())
/// # }
/// ```
///
/// # Contract
///
/// - While one guard of a key [is held](LockGuard::is_held), no conflicting guard is held anywhere.
///   Two events free a key before its guard knows: the claim is removed on the store, and with row
///   locks of MySQL, the connection ends. The guard learns of it within a third of the ttl, or
///   within two seconds with row locks.
/// - A lock that another client holds is `Ok(None)`, never an error. An error never means "held".
/// - Every grant carries a [`FencingToken`](crate::FencingToken) greater than every earlier token
///   of its key, under the condition that [`Capabilities::tokens`] names.
/// - A dropped `acquire` future leaves no claim on the store.
/// - A request for a missing feature fails with
///   [`ErrorKind::Unsupported`](crate::ErrorKind::Unsupported).
///
/// The cases of `lock-testkit` check this contract.
#[async_trait]
pub trait DistributedLock: fmt::Debug + Send + Sync + 'static {
    /// Returns the features of this backend and the conditions of its promises.
    fn capabilities(&self) -> Capabilities;

    /// Returns the keeper of this backend's holds, for layers such as [`HandOff`](crate::HandOff).
    ///
    /// Such a layer runs its background work on the keeper's runtime. Default: `None`, so that it
    /// runs on the caller's runtime.
    fn keeper(&self) -> Option<&Keeper> {
        None
    }

    /// Takes the lock, waiting as the request says; `None` if the wait ran out.
    ///
    /// # Errors
    ///
    /// - [`Unsupported`](crate::ErrorKind::Unsupported) for a mode, ttl, lock delay or minimum hold
    ///   that the backend does not support.
    /// - [`Unavailable`](crate::ErrorKind::Unavailable) if the store does not answer.
    /// - [`Denied`](crate::ErrorKind::Denied) if the store rejects the client.
    ///
    /// # Cancel safety
    ///
    /// Dropping the future at any await leaves neither a hold nor a place in a queue behind. A
    /// waiter that is dropped loses its place: keep one future across `select!` iterations.
    ///
    /// # Futures that are not polled
    ///
    /// A waiting future has to be polled when it is woken. A future may miss that because another
    /// branch of a `select!` runs, or because its runtime is no longer driven. Such a waiter must
    /// not block the key.
    ///
    /// After 100 ms without a poll (a tenth of the ttl, if less) it lapses: its hold goes to the
    /// next waiter, or its claim is removed. The waiter's next poll continues the wait at the end
    /// of the queue, without an error. Waiters that are polled are served in order. With the keeper
    /// [on the caller's runtime](crate::backend::KeeperRuntime::caller) the check runs on a
    /// waiter's runtime, so it stops while that runtime is not driven.
    async fn acquire(&self, request: LockRequest) -> Result<Option<LockGuard>>;

    /// Takes the locks of `requests` in one request to the store, without waiting: all of them, or
    /// none. Applications call [`lock_all`](crate::DistributedLockExt::lock_all), which tries this
    /// first.
    ///
    /// `None` if one of the keys is held or waited for, or if the store cannot do it in one request:
    /// then nothing was taken, and the caller takes one lock after the other. The keys must differ.
    ///
    /// Default: the [keeper](Self::keeper)'s, and `None` without one. A wrapper passes the call on if
    /// all keys go to one store.
    ///
    /// # Errors
    ///
    /// The errors of [`acquire`](Self::acquire).
    ///
    /// # Cancel safety
    ///
    /// Dropping the future leaves no hold behind.
    async fn acquire_together(&self, requests: &[LockRequest]) -> Result<Option<Vec<LockGuard>>> {
        match self.keeper() {
            Some(keeper) => keeper.acquire_together(requests).await,
            None => Ok(None),
        }
    }

    /// Returns the health of this client: a round trip to the store, its holds and its waiters.
    ///
    /// It takes at most 2.5 seconds; a store that does not answer by then is
    /// [`Unavailable`](crate::ErrorKind::Unavailable) in [`Health::latency`].
    /// [`ping`](crate::DistributedLockExt::ping) returns that latency alone.
    ///
    /// Default: the [keeper](Self::keeper)'s, and [`Health::unknown`] without one. A wrapper passes
    /// the call on.
    ///
    /// # Cancel safety
    ///
    /// Dropping the future changes nothing.
    async fn health(&self) -> Health {
        match self.keeper() {
            Some(keeper) => keeper.health().await,
            None => Health::unknown(),
        }
    }

    /// Reads who holds `key`, without changing anything. Applications call
    /// [`inspect`](crate::DistributedLockExt::inspect).
    ///
    /// Default: the [keeper](Self::keeper)'s, and [`Unsupported`](crate::ErrorKind::Unsupported)
    /// without one. A wrapper passes the call on.
    ///
    /// # Errors
    ///
    /// - [`Unsupported`](crate::ErrorKind::Unsupported) without [`Capabilities::inspect`].
    /// - [`Unavailable`](crate::ErrorKind::Unavailable) if the store does not answer within 2.5
    ///   seconds.
    /// - [`Closed`](crate::ErrorKind::Closed) after a [shutdown](Self::shutdown).
    ///
    /// # Cancel safety
    ///
    /// Dropping the future changes nothing.
    async fn inspect_key(&self, key: &LockKey) -> Result<KeyInfo> {
        match self.keeper() {
            Some(keeper) => keeper.inspect(key).await,
            None => Err(no_inspect().with_operation("inspect").with_key(key)),
        }
    }

    /// Shuts the client down: ends every hold and acquisition at once.
    ///
    /// The call waits at most `within` until the store has confirmed that all claims of this client
    /// are gone.
    ///
    /// Guards end with [`LossReason::Closed`](crate::LossReason::Closed) before their keys are
    /// released, so a task that checks its guard never works without the lock. To let work finish
    /// first, wait for it before this call. Keys lost earlier stay closed for their [lock
    /// delay](LockRequest::lock_delay), and all keys for their [minimum
    /// hold](LockRequest::min_hold). Waiting and new acquisitions fail with
    /// [`Closed`](crate::ErrorKind::Closed). Clones of the client are shut down, too; its
    /// connections close with the last clone, or when its last minimum hold is over.
    ///
    /// # Errors
    ///
    /// - [`Unavailable`](crate::ErrorKind::Unavailable) if a release is unconfirmed by then. It
    ///   continues in the background, and the ttl ends the hold at the latest.
    /// - [`Unsupported`](crate::ErrorKind::Unsupported) by a backend that does not pass the call on
    ///   to its [`Keeper::shutdown`](crate::backend::Keeper::shutdown).
    ///
    /// # Cancel safety
    ///
    /// Dropping the future stops only the wait.
    async fn shutdown(&self, within: Duration) -> Result<()> {
        let _ = within;
        Err(Error::new(
            ErrorKind::Unsupported,
            "shutdown is not supported by this backend: release its guards",
        ))
    }
}
