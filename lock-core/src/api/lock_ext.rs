//! The methods that applications call, derived from [`DistributedLock::acquire`].

use std::future::Future;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use crate::api::{once, with_lock};
use crate::{
    DistributedLock, Error, ErrorKind, HoldWatch, KeyInfo, LockGuard, LockKey, LockRequest,
    LockSet, Owner, Result, Wait, WithOwner, set,
};

/// The methods that applications call, implemented for every [`DistributedLock`].
///
/// No backend can override them.
///
/// | | does not wait | waits at most | waits for ever |
/// |---|---|---|---|
/// | exclusive | [`try_lock`](Self::try_lock) | [`lock_within`](Self::lock_within) | [`lock`](Self::lock) |
/// | shared | [`try_lock_shared`](Self::try_lock_shared) | [`lock_shared_within`](Self::lock_shared_within) | [`lock_shared`](Self::lock_shared) |
/// | several keys | [`try_lock_all`](Self::try_lock_all) | [`lock_all_within`](Self::lock_all_within) | [`lock_all`](Self::lock_all) |
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
    fn lock(&self, key: impl AsRef<str>) -> impl Future<Output = Result<LockGuard>> + Send {
        let request = LockRequest::exclusive(key);
        async move { wait_forever(self, request?).await }
    }

    /// Takes the exclusive lock if it is free, without a wait.
    fn try_lock(
        &self,
        key: impl AsRef<str>,
    ) -> impl Future<Output = Result<Option<LockGuard>>> + Send {
        let request = LockRequest::exclusive(key);
        async move { self.acquire(request?.without_waiting()).await }
    }

    /// Takes the exclusive lock, waiting at most `limit`.
    fn lock_within(
        &self,
        key: impl AsRef<str>,
        limit: Duration,
    ) -> impl Future<Output = Result<Option<LockGuard>>> + Send {
        let request = LockRequest::exclusive(key);
        async move { self.acquire(request?.waiting_at_most(limit)).await }
    }

    /// Takes a shared lock, waiting until no conflicting claim is left.
    fn lock_shared(&self, key: impl AsRef<str>) -> impl Future<Output = Result<LockGuard>> + Send {
        let request = LockRequest::shared(key);
        async move { wait_forever(self, request?).await }
    }

    /// Takes a shared lock if no conflicting claim exists, without a wait.
    fn try_lock_shared(
        &self,
        key: impl AsRef<str>,
    ) -> impl Future<Output = Result<Option<LockGuard>>> + Send {
        let request = LockRequest::shared(key);
        async move { self.acquire(request?.without_waiting()).await }
    }

    /// Takes a shared lock, waiting at most `limit`.
    fn lock_shared_within(
        &self,
        key: impl AsRef<str>,
        limit: Duration,
    ) -> impl Future<Output = Result<Option<LockGuard>>> + Send {
        let request = LockRequest::shared(key);
        async move { self.acquire(request?.waiting_at_most(limit)).await }
    }

    /// Takes one of `of` permits, waiting until one is free. Zero permits are an error.
    fn permit(
        &self,
        key: impl AsRef<str>,
        of: u32,
    ) -> impl Future<Output = Result<LockGuard>> + Send {
        let request = LockRequest::permit(key, of);
        async move { wait_forever(self, request?).await }
    }

    /// Takes one of `of` permits if one is free, without a wait. Zero permits are an error.
    fn try_permit(
        &self,
        key: impl AsRef<str>,
        of: u32,
    ) -> impl Future<Output = Result<Option<LockGuard>>> + Send {
        let request = LockRequest::permit(key, of);
        async move { self.acquire(request?.without_waiting()).await }
    }

    /// Takes one of `of` permits, waiting at most `limit`. Zero permits are an error.
    fn permit_within(
        &self,
        key: impl AsRef<str>,
        of: u32,
        limit: Duration,
    ) -> impl Future<Output = Result<Option<LockGuard>>> + Send {
        let request = LockRequest::permit(key, of);
        async move { self.acquire(request?.waiting_at_most(limit)).await }
    }

    /// Takes the exclusive locks of all `keys`, waiting until all are free.
    ///
    /// Every client takes several keys in the order of the keys, so two of them never wait for each
    /// other. If the hold of an earlier key is lost during the wait for a later one, the call begins
    /// anew. A repeated key counts once, and keys may be on different stores. Some stores take free
    /// keys [in one request](DistributedLock::acquire_together).
    fn lock_all<K: AsRef<str>>(
        &self,
        keys: impl IntoIterator<Item = K>,
    ) -> impl Future<Output = Result<LockSet>> + Send {
        let requests = set::requests(keys);
        async move {
            let taken = set::acquire_all(self, requests?, Wait::Forever).await?;
            taken.ok_or_else(gave_up)
        }
    }

    /// Takes the exclusive locks of all `keys` if all are free, without a wait; else none of them.
    fn try_lock_all<K: AsRef<str>>(
        &self,
        keys: impl IntoIterator<Item = K>,
    ) -> impl Future<Output = Result<Option<LockSet>>> + Send {
        let requests = set::requests(keys);
        async move { set::acquire_all(self, requests?, Wait::No).await }
    }

    /// Takes the exclusive locks of all `keys`, waiting at most `limit` for all together; else none
    /// of them.
    fn lock_all_within<K: AsRef<str>>(
        &self,
        keys: impl IntoIterator<Item = K>,
        limit: Duration,
    ) -> impl Future<Output = Result<Option<LockSet>>> + Send {
        let requests = set::requests(keys);
        async move { set::acquire_all(self, requests?, Wait::within(limit)).await }
    }

    /// Takes the locks of all `requests` within one `wait`, whatever the requests say; `None` if it
    /// ran out.
    ///
    /// # Errors
    ///
    /// [`Config`](ErrorKind::Config) for two different requests of one key.
    fn acquire_all(
        &self,
        requests: impl IntoIterator<Item = LockRequest>,
        wait: Wait,
    ) -> impl Future<Output = Result<Option<LockSet>>> + Send {
        let requests = requests.into_iter().collect();
        set::acquire_all(self, requests, wait)
    }

    /// Returns this client with `owner` for all requests that name no owner. The owner's requests
    /// for a key that it holds enter without asking the store.
    ///
    /// ```
    /// use std::sync::Arc;
    /// use lock_core::{DistributedLock, DistributedLockExt, MemoryLock, Owner, Result};
    ///
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<()> {
    /// async fn reserve(locks: &impl DistributedLock) -> Result<()> {
    ///     let _stock = locks.lock("stock/7").await?;
    ///     Ok(())
    /// }
    ///
    /// let client: Arc<dyn DistributedLock> = Arc::new(MemoryLock::new());
    /// let locks = client.with_owner(&Owner::new());
    /// let _stock = locks.lock("stock/7").await?;
    /// reserve(&locks).await?; // without an owner, this waits for ever
    /// # Ok(())
    /// # }
    /// ```
    fn with_owner(self: &Arc<Self>, owner: &Owner) -> WithOwner<Self> {
        WithOwner::new(Arc::clone(self), owner.clone())
    }

    /// Asks the store for one answer, and returns the time of that round trip.
    ///
    /// The [`latency`](crate::Health::latency) of [`health`](DistributedLock::health), which takes
    /// at most 2.5 seconds.
    ///
    /// ```
    /// use lock_core::{DistributedLockExt, MemoryLock};
    ///
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> lock_core::Result<()> {
    /// let latency = MemoryLock::new().ping().await?;
    /// println!("the store answered within {latency:?}");
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    ///
    /// - [`Unavailable`](ErrorKind::Unavailable) if the store does not answer.
    /// - [`Closed`](ErrorKind::Closed) after a [shutdown](DistributedLock::shutdown).
    /// - [`Unsupported`](ErrorKind::Unsupported) by a backend that cannot tell.
    fn ping(&self) -> impl Future<Output = Result<Duration>> + Send {
        async move { self.health().await.latency }
    }

    /// Reads who holds `key`, and how many clients wait for it, without changing anything.
    ///
    /// The answer is for people and logs: it may be out of date when it is read.
    ///
    /// ```
    /// use lock_core::{DistributedLockExt, MemoryLock};
    ///
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> lock_core::Result<()> {
    /// let locks = MemoryLock::new();
    /// let guard = locks.lock("nightly-report").await?;
    /// for holder in locks.inspect("nightly-report").await?.holders {
    ///     println!("{:?} of {:?} since {:?}", holder.pid, holder.host, holder.since);
    /// }
    /// guard.release().await?;
    /// assert!(locks.inspect("nightly-report").await?.holders.is_empty());
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    ///
    /// - [`InvalidKey`](ErrorKind::InvalidKey) if `key` is empty or over 255 bytes.
    /// - The errors of [`inspect_key`](DistributedLock::inspect_key).
    fn inspect(&self, key: impl AsRef<str>) -> impl Future<Output = Result<KeyInfo>> + Send {
        let key = LockKey::new(key);
        async move { self.inspect_key(&key?).await }
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

    /// Like [`with_lock`](Self::with_lock), for work that returns a `Result`: one flat result, whose
    /// error is made from the lock's.
    ///
    /// ```
    /// use lock_core::{DistributedLockExt, LockRequest, MemoryLock};
    ///
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// let locks = MemoryLock::new();
    /// let request = LockRequest::exclusive("ledger")?;
    /// let read = locks.try_with_lock(request, async |_| "42".parse::<u32>().map_err(Into::into));
    /// let read: Result<Option<u32>, Box<dyn std::error::Error + Send + Sync>> = read.await;
    /// assert_eq!(read.expect("it is a number"), Some(42));
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    ///
    /// The error of the work, and the errors of [`with_lock`](Self::with_lock).
    ///
    /// # Cancel safety
    ///
    /// Dropping the future drops the work and releases the lock in the background.
    fn try_with_lock<W, F, T, E>(
        &self,
        request: LockRequest,
        work: W,
    ) -> impl Future<Output = Result<Option<T>, E>> + Send
    where
        W: FnOnce(HoldWatch) -> F + Send,
        F: Future<Output = Result<T, E>> + Send,
        T: Send,
        E: From<Error> + Send,
    {
        async move { with_lock::with_lock(self, request, work).await?.transpose() }
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

/// Takes the lock of `request`, waiting until it is free.
pub(crate) async fn wait_forever<L>(locks: &L, request: LockRequest) -> Result<LockGuard>
where
    L: DistributedLock + ?Sized,
{
    let key = request.key.clone();
    locks
        .acquire(request.with_wait(Wait::Forever))
        .await?
        .ok_or_else(|| gave_up().with_key(&key))
}

fn gave_up() -> Error {
    let message = "the backend gave up a wait that has no end";
    Error::new(ErrorKind::Backend, message).with_operation("acquire")
}
