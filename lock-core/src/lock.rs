//! The trait that applications hold and backends implement.

use std::fmt;

use async_trait::async_trait;

use crate::{Capabilities, LockGuard, LockRequest, Result};

/// A lock service: takes locks by key on one store.
///
/// Applications hold it as `Arc<dyn DistributedLock>` and call it through
/// [`DistributedLockExt`](crate::DistributedLockExt). Backends implement it beside
/// [`Lease`](crate::Lease), and nothing else.
///
/// # Contract
///
/// - While one guard of a key [is held](LockGuard::is_held), no conflicting guard is, anywhere.
/// - Held by someone else is `Ok(None)`, never an error; an error never means "held".
/// - Every grant carries a [`FencingToken`](crate::FencingToken) greater than every earlier one of
///   that key, as far as [`Capabilities::tokens`] promises.
/// - A dropped `acquire` future leaves nothing behind on the store.
/// - What a backend cannot give is [`ErrorKind::Unsupported`](crate::ErrorKind::Unsupported).
///
/// The cases of `lock-testkit` check all of it.
#[async_trait]
pub trait DistributedLock: fmt::Debug + Send + Sync + 'static {
    /// What this backend can do and how far it promises it.
    fn capabilities(&self) -> Capabilities;

    /// Takes the lock, waiting the way this backend waits best; `None` when the wait ran out.
    ///
    /// # Errors
    ///
    /// [`Unsupported`](crate::ErrorKind::Unsupported) for a mode or ttl the backend cannot give,
    /// [`Unavailable`](crate::ErrorKind::Unavailable) when the store does not answer,
    /// [`Denied`](crate::ErrorKind::Denied) when it refuses the client.
    ///
    /// # Cancel safety
    ///
    /// Dropping the future at any await leaves neither a hold nor a place in a queue behind. A
    /// waiter that is dropped loses its place: keep one future across `select!` turns.
    async fn acquire(&self, request: LockRequest) -> Result<Option<LockGuard>>;
}
