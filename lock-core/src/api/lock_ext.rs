//! The methods that applications call, derived from [`DistributedLock::acquire`].

use std::future::Future;
use std::time::{Duration, SystemTime};

use crate::api::{once, with_lock};
use crate::{DistributedLock, Error, ErrorKind, HoldWatch, LockGuard, LockRequest, Result, Wait};

/// The methods that applications call, implemented for every [`DistributedLock`].
///
/// No backend can override them.
///
/// | | does not wait | waits at most | waits for ever |
/// |---|---|---|---|
/// | exclusive | [`try_lock`](Self::try_lock) | [`lock_within`](Self::lock_within) | [`lock`](Self::lock) |
/// | shared | [`try_lock_shared`](Self::try_lock_shared) | [`lock_shared_within`](Self::lock_shared_within) | [`lock_shared`](Self::lock_shared) |
/// | one of n permits | [`try_permit`](Self::try_permit) | [`permit_within`](Self::permit_within) | [`permit`](Self::permit) |
///
/// All methods use the client's ttl. For another ttl, pass a [`LockRequest`] to
/// [`DistributedLock::acquire`].
///
/// # Errors
///
/// Every method: [`InvalidKey`](ErrorKind::InvalidKey) if the key is empty or over 255 bytes, and
/// the errors of [`DistributedLock::acquire`]. A lock that another client holds is `None`, not an
/// error.
///
/// # Cancel safety
///
/// Every method: dropping the future leaves no claim on the store.
///
/// ```
/// use std::time::Duration;
/// use lock_core::{DistributedLockExt, MemoryLock};
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> lock_core::Result<()> {
/// let locks = MemoryLock::new();
/// let writer = locks.lock("accounts").await?;
/// assert!(locks.try_lock_shared("accounts").await?.is_none());
/// assert!(locks.lock_within("accounts", Duration::from_millis(20)).await?.is_none());
/// writer.release().await?;
///
/// let first = locks.lock_shared("accounts").await?;
/// let second = locks.lock_shared("accounts").await?;
/// assert!(second.token() > first.token());
/// # Ok(())
/// # }
/// ```
pub trait DistributedLockExt: DistributedLock {
    /// Takes the exclusive lock, waiting until it is free.
    fn lock(&self, key: &str) -> impl Future<Output = Result<LockGuard>> + Send {
        async move { wait_forever(self, LockRequest::exclusive(key)?).await }
    }

    /// Takes the exclusive lock if it is free, without a wait.
    fn try_lock(&self, key: &str) -> impl Future<Output = Result<Option<LockGuard>>> + Send {
        async move {
            self.acquire(LockRequest::exclusive(key)?.without_waiting())
                .await
        }
    }

    /// Takes the exclusive lock, waiting at most `limit`.
    fn lock_within(
        &self,
        key: &str,
        limit: Duration,
    ) -> impl Future<Output = Result<Option<LockGuard>>> + Send {
        async move {
            self.acquire(LockRequest::exclusive(key)?.waiting_at_most(limit))
                .await
        }
    }

    /// Takes a shared lock, waiting until no conflicting claim is left.
    fn lock_shared(&self, key: &str) -> impl Future<Output = Result<LockGuard>> + Send {
        async move { wait_forever(self, LockRequest::shared(key)?).await }
    }

    /// Takes a shared lock if no conflicting claim exists, without a wait.
    fn try_lock_shared(&self, key: &str) -> impl Future<Output = Result<Option<LockGuard>>> + Send {
        async move {
            self.acquire(LockRequest::shared(key)?.without_waiting())
                .await
        }
    }

    /// Takes a shared lock, waiting at most `limit`.
    fn lock_shared_within(
        &self,
        key: &str,
        limit: Duration,
    ) -> impl Future<Output = Result<Option<LockGuard>>> + Send {
        async move {
            self.acquire(LockRequest::shared(key)?.waiting_at_most(limit))
                .await
        }
    }

    /// Takes one of `of` permits, waiting until one is free. Zero permits are an error.
    fn permit(&self, key: &str, of: u32) -> impl Future<Output = Result<LockGuard>> + Send {
        async move { wait_forever(self, LockRequest::permit(key, of)?).await }
    }

    /// Takes one of `of` permits if one is free, without a wait. Zero permits are an error.
    fn try_permit(
        &self,
        key: &str,
        of: u32,
    ) -> impl Future<Output = Result<Option<LockGuard>>> + Send {
        async move {
            self.acquire(LockRequest::permit(key, of)?.without_waiting())
                .await
        }
    }

    /// Takes one of `of` permits, waiting at most `limit`. Zero permits are an error.
    fn permit_within(
        &self,
        key: &str,
        of: u32,
        limit: Duration,
    ) -> impl Future<Output = Result<Option<LockGuard>>> + Send {
        async move {
            self.acquire(LockRequest::permit(key, of)?.waiting_at_most(limit))
                .await
        }
    }

    /// Runs `work` under the lock and releases it afterwards; `None` if the wait ran out.
    ///
    /// If the lock is lost, the work's future is dropped before another client can get the lock
    /// ([exceptions](DistributedLock#contract)), and the call fails. The drop stops async work at
    /// its current await. It stops neither *blocking* work nor tasks that the work has spawned;
    /// these have to check the [`HoldWatch`] they are given:
    ///
    /// ```
    /// use lock_core::{DistributedLockExt, LockRequest, MemoryLock};
    ///
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> lock_core::Result<()> {
    /// let locks = MemoryLock::new();
    /// let sum = locks.with_lock(LockRequest::exclusive("ledger")?, async |held| {
    ///     tokio::task::spawn_blocking(move || {
    ///         (1..=10).take_while(|_| held.is_held()).sum::<u32>()
    ///     })
    ///     .await
    /// });
    /// assert_eq!(sum.await?.expect("we wait for ever").expect("no panic"), 55);
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    ///
    /// The errors of the acquisition, and [`Lost`](ErrorKind::Lost):
    /// - if the lock was lost before the work was done. This includes work whose last step blocked
    ///   beyond the end of the hold.
    /// - if the release finds no claim on the store: it was removed, perhaps before the work was
    ///   done. A repeated release whose first request succeeded looks the same.
    ///
    /// An unconfirmed release after the work is logged, not returned: the work is done, and the ttl
    /// ends the hold.
    ///
    /// # Cancel safety
    ///
    /// Dropping the future drops the work and releases the lock in the background.
    fn with_lock<W, F>(
        &self,
        request: LockRequest,
        work: W,
    ) -> impl Future<Output = Result<Option<F::Output>>> + Send
    where
        W: FnOnce(HoldWatch) -> F + Send,
        F: Future + Send,
        F::Output: Send,
    {
        with_lock::with_lock(self, request, work)
    }

    /// Runs the job `name` of the planned time `fire_time`, unless another instance runs or ran it;
    /// then returns `None`.
    ///
    /// At most one instance runs the job, as long as their clocks differ by less than `within`. The
    /// job may take a millisecond, and its instance may be killed afterwards. If the instance
    /// crashes during the job, no other runs it. A lock that is removed on the store protects
    /// nothing. See [`LockRequest::once`].
    ///
    /// ```
    /// use std::time::{Duration, SystemTime};
    /// use lock_core::{DistributedLockExt, MemoryLock};
    ///
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> lock_core::Result<()> {
    /// let locks = MemoryLock::new();
    /// let planned = SystemTime::now(); // the time in the schedule
    /// let minute = Duration::from_secs(60);
    /// let first = locks.once("report", planned, minute, async |_| "done").await?;
    /// assert_eq!(first, Some("done"));
    /// let second = locks.once("report", planned, minute, async |_| "done").await?;
    /// assert_eq!(second, None);
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    ///
    /// The errors of [`LockRequest::once`] and [`with_lock`](Self::with_lock), among them
    /// [`Unsupported`](ErrorKind::Unsupported) if the store has no minimum hold, or none of up to
    /// three times `within`.
    ///
    /// # Cancel safety
    ///
    /// Dropping the future drops the job. Once the job has begun, no instance runs it again.
    fn once<W, F>(
        &self,
        name: &str,
        fire_time: SystemTime,
        within: Duration,
        work: W,
    ) -> impl Future<Output = Result<Option<F::Output>>> + Send
    where
        W: FnOnce(HoldWatch) -> F + Send,
        F: Future + Send,
        F::Output: Send,
    {
        async move {
            let request = LockRequest::once(name, fire_time, within)?;
            let Some(guard) = self.acquire(request).await? else {
                return Ok(None);
            };
            // The process may have stood still since the request was made.
            once::time_left(fire_time, within).map_err(|error| error.with_key(guard.key()))?;
            with_lock::with_guard(guard, work).await.map(Some)
        }
    }
}

impl<L: DistributedLock + ?Sized> DistributedLockExt for L {}

async fn wait_forever<L>(locks: &L, request: LockRequest) -> Result<LockGuard>
where
    L: DistributedLock + ?Sized,
{
    let key = request.key.clone();
    locks
        .acquire(request.with_wait(Wait::Forever))
        .await?
        .ok_or_else(|| {
            Error::new(
                ErrorKind::Backend,
                "the backend gave up a wait that has no end",
            )
            .with_operation("acquire")
            .with_key(&key)
        })
}
