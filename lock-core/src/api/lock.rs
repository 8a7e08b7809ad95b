//! The trait that applications hold and backends implement.

use std::fmt;
use std::time::Duration;

use async_trait::async_trait;

use crate::backend::Keeper;
use crate::{Capabilities, Error, ErrorKind, LockGuard, LockRequest, Result};

/// A lock service: takes locks by key on one store.
///
/// Applications hold it as `Arc<dyn DistributedLock>` and call it through
/// [`DistributedLockExt`](crate::DistributedLockExt). Backends implement it beside
/// [`LeaseStore`](crate::backend::LeaseStore), and nothing else.
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
    /// Returns what this backend can do and how far it promises it.
    fn capabilities(&self) -> Capabilities;

    /// The keeper of this backend's holds, for layers in front of it such as
    /// [`HandOff`](crate::HandOff): what they do in the background they do where holds are kept.
    /// Default: none, which is where the caller is.
    fn keeper(&self) -> Option<&Keeper> {
        None
    }

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
    ///
    /// # Futures that are not polled
    ///
    /// A future that waits has to be polled when it is woken, like any other. One that is not,
    /// because a branch of a `select!` runs meanwhile, or because its runtime is not driven any
    /// more, must not keep the lock from others: when 100 ms have passed since it was woken (a
    /// tenth of the ttl, if that is less), what it was given goes to the next waiter, and what it
    /// has claimed on the store is given up. It is at the end of the line then; its next poll goes
    /// on waiting, without an error. Waiters that are polled are served in order. Where holds are
    /// kept [by the caller](crate::backend::KeeperRuntime::caller) this is looked after on the
    /// runtime of a waiter, so not while that is not driven.
    async fn acquire(&self, request: LockRequest) -> Result<Option<LockGuard>>;

    /// Shuts the client down: ends every hold and acquisition at once, and waits at most `within`
    /// until the store has confirmed that nothing of them is left.
    ///
    /// Guards are told ([`LossReason::Closed`](crate::LossReason::Closed)) before their keys are
    /// given back, so a task that looks at it does not work on without the lock; to let work finish
    /// first, wait for it before. What was lost before stays closed for its [lock
    /// delay](LockRequest::lock_delay). Acquisitions, waiting ones and new ones, end with
    /// [`Closed`](crate::ErrorKind::Closed). Clones of the client are shut down with it; its
    /// connections end with the last of them.
    ///
    /// # Errors
    ///
    /// [`Unavailable`](crate::ErrorKind::Unavailable) when something is unconfirmed by then: it
    /// goes on in the background, and at the latest the ttl ends it.
    /// [`Unsupported`](crate::ErrorKind::Unsupported) by a backend that does not pass the call on
    /// to its [`Keeper::shutdown`](crate::backend::Keeper::shutdown).
    ///
    /// # Cancel safety
    ///
    /// Dropping the future stops the waiting only.
    async fn shutdown(&self, within: Duration) -> Result<()> {
        let _ = within;
        Err(Error::new(
            ErrorKind::Unsupported,
            "this backend cannot be shut down: release its guards",
        ))
    }
}
