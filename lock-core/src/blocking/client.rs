//! The client of blocking calls.

use std::fmt;
use std::future::Future;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use super::guard::LockGuard;
use super::runtime::CallRuntime;
use super::set::LockSet;
use crate::api::lock_ext::wait_forever;
use crate::api::once;
use crate::{
    Capabilities, DistributedLock, DistributedLockExt, Error, Health, HoldWatch, KeyInfo, LockKey,
    LockRequest, Result, Wait,
};

/// Takes locks for threads without async, on the store of any [`DistributedLock`].
///
/// | | does not wait | waits at most | waits for ever |
/// |---|---|---|---|
/// | exclusive | [`try_lock`](Self::try_lock) | [`lock_within`](Self::lock_within) | [`lock`](Self::lock) |
/// | shared | [`try_lock_shared`](Self::try_lock_shared) | [`lock_shared_within`](Self::lock_shared_within) | [`lock_shared`](Self::lock_shared) |
/// | several keys | [`try_lock_all`](Self::try_lock_all) | [`lock_all_within`](Self::lock_all_within) | [`lock_all`](Self::lock_all) |
/// | one of n permits | [`try_permit`](Self::try_permit) | [`permit_within`](Self::permit_within) | [`permit`](Self::permit) |
///
/// The methods mean the same as those of [`DistributedLockExt`]. Clones are one client, and any
/// number of threads may call at the same time.
///
/// # Blocking
///
/// Each call blocks its thread until it is done, and cannot be cancelled: see
/// [the module](super#waits-that-end). A call that does not wait for a lock still waits for the
/// store's answer, at most the backend's limit for requests.
///
/// # Errors
///
/// Every method that takes a lock: [`InvalidKey`](crate::ErrorKind::InvalidKey) if the key is empty
/// or over 255 bytes, and the errors of [`DistributedLock::acquire`]. A lock that another client
/// holds is `None`, not an error.
///
/// Every method that blocks: [`Config`](crate::ErrorKind::Config) in a process forked since, and on
/// the thread of blocking calls, for example in the future that [`connect`](Self::connect) runs.
///
/// ```
/// use std::sync::Arc;
/// use std::thread;
/// use std::time::Duration;
/// use lock_core::MemoryLock;
/// use lock_core::blocking::Client;
///
/// # fn main() -> lock_core::Result<()> {
/// let locks = Client::new(Arc::new(MemoryLock::new()))?;
/// thread::scope(|scope| {
///     for order in [7, 8] {
///         let locks = &locks;
///         scope.spawn(move || -> lock_core::Result<()> {
///             let limit = Duration::from_secs(5);
///             let Some(guard) = locks.lock_within("stock", limit)? else {
///                 return Ok(()); // still held after five seconds
///             };
///             println!("order {order} has token {}", guard.token());
///             guard.release()?;
///             Ok(())
///         });
///     }
/// });
/// # Ok(())
/// # }
/// ```
#[derive(Clone)]
pub struct Client {
    locks: Arc<dyn DistributedLock>,
    runtime: CallRuntime,
}

impl Client {
    /// Creates a client of the store of `locks`, which async code may use as well.
    ///
    /// All requests of the client come from the thread of blocking calls. A backend with
    /// connections for each runtime opens its own for this thread.
    ///
    /// # Errors
    ///
    /// [`Backend`](crate::ErrorKind::Backend) if the operating system cannot start the thread of
    /// blocking calls.
    pub fn new(locks: Arc<dyn DistributedLock>) -> Result<Self> {
        let runtime = CallRuntime::of_process()?;
        Ok(Self { locks, runtime })
    }

    /// Runs `connecting` on the thread of blocking calls, and creates a client of its store.
    ///
    /// ```
    /// use std::sync::Arc;
    /// use lock_core::blocking::Client;
    /// use lock_core::{DistributedLock, MemoryLock, Result};
    ///
    /// # async fn connect() -> Result<Arc<dyn DistributedLock>> { Ok(Arc::new(MemoryLock::new())) }
    /// # fn main() -> lock_core::Result<()> {
    /// let locks = Client::connect(connect())?;
    /// assert!(locks.try_lock("nightly-report")?.is_some());
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    ///
    /// The error of `connecting`, and [`Backend`](crate::ErrorKind::Backend) if the operating system
    /// cannot start the thread of blocking calls.
    pub fn connect(
        connecting: impl Future<Output = Result<Arc<dyn DistributedLock>>> + Send + 'static,
    ) -> Result<Self> {
        let runtime = CallRuntime::of_process()?;
        let locks = runtime.run(connecting)?;
        Ok(Self { locks, runtime })
    }

    /// Returns the features of the backend and the conditions of its promises.
    pub fn capabilities(&self) -> Capabilities {
        self.locks.capabilities()
    }

    /// Takes the lock, waiting as the request says; `None` if the wait ran out.
    ///
    /// # Errors
    ///
    /// The errors of [`DistributedLock::acquire`].
    pub fn acquire(&self, request: LockRequest) -> Result<Option<LockGuard>> {
        let locks = Arc::clone(&self.locks);
        let taken = self
            .runtime
            .run(async move { locks.acquire(request).await })?;
        Ok(taken.map(|guard| self.guard(guard)))
    }

    /// Takes the exclusive lock, waiting until it is free.
    pub fn lock(&self, key: impl AsRef<str>) -> Result<LockGuard> {
        self.wait_forever(LockRequest::exclusive(key)?)
    }

    /// Takes the exclusive lock if it is free, without a wait.
    pub fn try_lock(&self, key: impl AsRef<str>) -> Result<Option<LockGuard>> {
        self.acquire(LockRequest::exclusive(key)?.without_waiting())
    }

    /// Takes the exclusive lock, waiting at most `limit`.
    pub fn lock_within(&self, key: impl AsRef<str>, limit: Duration) -> Result<Option<LockGuard>> {
        self.acquire(LockRequest::exclusive(key)?.waiting_at_most(limit))
    }

    /// Takes a shared lock, waiting until no conflicting claim is left.
    pub fn lock_shared(&self, key: impl AsRef<str>) -> Result<LockGuard> {
        self.wait_forever(LockRequest::shared(key)?)
    }

    /// Takes a shared lock if no conflicting claim exists, without a wait.
    pub fn try_lock_shared(&self, key: impl AsRef<str>) -> Result<Option<LockGuard>> {
        self.acquire(LockRequest::shared(key)?.without_waiting())
    }

    /// Takes a shared lock, waiting at most `limit`.
    pub fn lock_shared_within(
        &self,
        key: impl AsRef<str>,
        limit: Duration,
    ) -> Result<Option<LockGuard>> {
        self.acquire(LockRequest::shared(key)?.waiting_at_most(limit))
    }

    /// Takes one of `of` permits, waiting until one is free. Zero permits are an error.
    pub fn permit(&self, key: impl AsRef<str>, of: u32) -> Result<LockGuard> {
        self.wait_forever(LockRequest::permit(key, of)?)
    }

    /// Takes one of `of` permits if one is free, without a wait. Zero permits are an error.
    pub fn try_permit(&self, key: impl AsRef<str>, of: u32) -> Result<Option<LockGuard>> {
        self.acquire(LockRequest::permit(key, of)?.without_waiting())
    }

    /// Takes one of `of` permits, waiting at most `limit`. Zero permits are an error.
    pub fn permit_within(
        &self,
        key: impl AsRef<str>,
        of: u32,
        limit: Duration,
    ) -> Result<Option<LockGuard>> {
        self.acquire(LockRequest::permit(key, of)?.waiting_at_most(limit))
    }

    /// Takes the exclusive locks of all `keys`, waiting until all are free.
    ///
    /// Every client takes several keys in the order of the keys, so two of them never wait for each
    /// other. If the hold of an earlier key is lost during the wait for a later one, the call begins
    /// anew. A repeated key counts once, and keys may be on different stores.
    pub fn lock_all<K: AsRef<str>>(&self, keys: impl IntoIterator<Item = K>) -> Result<LockSet> {
        let (locks, keys) = (Arc::clone(&self.locks), owned(keys));
        let set = self
            .runtime
            .run(async move { locks.lock_all(keys).await })?;
        Ok(self.set(set))
    }

    /// Takes the exclusive locks of all `keys` if all are free, without a wait; else none of them.
    pub fn try_lock_all<K: AsRef<str>>(
        &self,
        keys: impl IntoIterator<Item = K>,
    ) -> Result<Option<LockSet>> {
        let (locks, keys) = (Arc::clone(&self.locks), owned(keys));
        let taken = self
            .runtime
            .run(async move { locks.try_lock_all(keys).await })?;
        Ok(taken.map(|set| self.set(set)))
    }

    /// Takes the exclusive locks of all `keys`, waiting at most `limit` for all together; else none
    /// of them.
    pub fn lock_all_within<K: AsRef<str>>(
        &self,
        keys: impl IntoIterator<Item = K>,
        limit: Duration,
    ) -> Result<Option<LockSet>> {
        let (locks, keys) = (Arc::clone(&self.locks), owned(keys));
        let taken = self
            .runtime
            .run(async move { locks.lock_all_within(keys, limit).await })?;
        Ok(taken.map(|set| self.set(set)))
    }

    /// Takes the locks of all `requests` within one `wait`, whatever the requests say; `None` if it
    /// ran out.
    ///
    /// # Errors
    ///
    /// [`Config`](crate::ErrorKind::Config) for two different requests of one key.
    pub fn acquire_all(
        &self,
        requests: impl IntoIterator<Item = LockRequest>,
        wait: Wait,
    ) -> Result<Option<LockSet>> {
        let locks = Arc::clone(&self.locks);
        let requests: Vec<_> = requests.into_iter().collect();
        let taken = self
            .runtime
            .run(async move { locks.acquire_all(requests, wait).await })?;
        Ok(taken.map(|set| self.set(set)))
    }

    /// Runs `work` on this thread under the lock and releases it afterwards; `None` if the wait ran
    /// out.
    ///
    /// No client can stop a thread, so a loss does not stop the work. The work has to check
    /// [`is_held`](HoldWatch::is_held) of the watch that it is given, between two steps, and to end
    /// when the lock is lost. If the work panics, the lock is released in the background.
    ///
    /// ```
    /// use std::sync::Arc;
    /// use lock_core::blocking::Client;
    /// use lock_core::{LockRequest, MemoryLock};
    ///
    /// # fn main() -> lock_core::Result<()> {
    /// let locks = Client::new(Arc::new(MemoryLock::new()))?;
    /// let sum = locks.with_lock(LockRequest::exclusive("ledger")?, |held| {
    ///     (1..=10).take_while(|_| held.is_held()).sum::<u32>()
    /// })?;
    /// assert_eq!(sum, Some(55));
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    ///
    /// The errors of the acquisition, and [`Lost`](crate::ErrorKind::Lost), which drops the output of
    /// the work:
    /// - if the lock was lost before the work was done.
    /// - if the release finds no claim on the store: it was removed, perhaps before the work was
    ///   done. A repeated release whose first request succeeded looks the same.
    ///
    /// An unconfirmed release after the work is logged, not returned: the work is done, and the ttl
    /// ends the hold.
    pub fn with_lock<T>(
        &self,
        request: LockRequest,
        work: impl FnOnce(HoldWatch) -> T,
    ) -> Result<Option<T>> {
        let taken = self.acquire(request)?;
        taken.map(|guard| guard.run(work)).transpose()
    }

    /// Like [`with_lock`](Self::with_lock), for work that returns a `Result`: one flat result, whose
    /// error is made from the lock's.
    ///
    /// # Errors
    ///
    /// The error of the work, and the errors of [`with_lock`](Self::with_lock).
    pub fn try_with_lock<T, E: From<Error>>(
        &self,
        request: LockRequest,
        work: impl FnOnce(HoldWatch) -> Result<T, E>,
    ) -> Result<Option<T>, E> {
        self.with_lock(request, work)?.transpose()
    }

    /// Runs the job `name` of the planned time `fire_time` on this thread, unless another instance
    /// runs or ran it; then returns `None`.
    ///
    /// At most one instance runs the job, as long as their clocks differ by less than `within`: see
    /// [`DistributedLockExt::once`]. As with [`with_lock`](Self::with_lock), a loss does not stop the
    /// job.
    ///
    /// ```
    /// use std::sync::Arc;
    /// use std::time::{Duration, SystemTime};
    /// use lock_core::MemoryLock;
    /// use lock_core::blocking::Client;
    ///
    /// # fn main() -> lock_core::Result<()> {
    /// let locks = Client::new(Arc::new(MemoryLock::new()))?;
    /// let planned = SystemTime::now(); // the time in the schedule
    /// let minute = Duration::from_secs(60);
    /// assert_eq!(locks.once("report", planned, minute, |_| "done")?, Some("done"));
    /// assert_eq!(locks.once("report", planned, minute, |_| "done")?, None);
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    ///
    /// The errors of [`LockRequest::once`] and [`with_lock`](Self::with_lock), among them
    /// [`Unsupported`](crate::ErrorKind::Unsupported) if the store has no minimum hold, or none of
    /// up to three times `within`.
    pub fn once<T>(
        &self,
        name: &str,
        fire_time: SystemTime,
        within: Duration,
        work: impl FnOnce(HoldWatch) -> T,
    ) -> Result<Option<T>> {
        let Some(guard) = self.acquire(LockRequest::once(name, fire_time, within)?)? else {
            return Ok(None);
        };
        // The process may have stood still since the request was made.
        once::time_left(fire_time, within).map_err(|error| error.with_key(guard.key()))?;
        guard.run(work).map(Some)
    }

    /// Returns the health of this client like [`DistributedLock::health`]. Blocks at most 2.5 seconds.
    pub fn health(&self) -> Health {
        let locks = Arc::clone(&self.locks);
        let health = self.runtime.run(async move { Ok(locks.health().await) });
        health.unwrap_or_else(|error| Health::new(Err(error)))
    }

    /// Asks the store for one answer, and returns the time of that round trip. Blocks at most 2.5
    /// seconds.
    ///
    /// # Errors
    ///
    /// As of the async [`ping`](DistributedLockExt::ping).
    pub fn ping(&self) -> Result<Duration> {
        self.health().latency
    }

    /// Reads who holds `key`, without changing anything. Blocks at most 2.5 seconds.
    ///
    /// # Errors
    ///
    /// As of the async [`inspect`](DistributedLockExt::inspect).
    pub fn inspect(&self, key: impl AsRef<str>) -> Result<KeyInfo> {
        let (locks, key) = (Arc::clone(&self.locks), LockKey::new(key)?);
        self.runtime
            .run(async move { locks.inspect_key(&key).await })
    }

    /// Shuts the client down: ends every hold and acquisition at once. Blocks at most `within` until
    /// the store has confirmed it.
    ///
    /// The [async client](DistributedLock::shutdown) that it was made of is shut down, too. Waiting
    /// calls of other threads fail with [`Closed`](crate::ErrorKind::Closed).
    ///
    /// # Errors
    ///
    /// - [`Unavailable`](crate::ErrorKind::Unavailable) if a release is unconfirmed by then. It
    ///   continues in the background, and the ttl ends the hold at the latest.
    /// - [`Unsupported`](crate::ErrorKind::Unsupported) by a backend that has no shutdown.
    pub fn shutdown(&self, within: Duration) -> Result<()> {
        let locks = Arc::clone(&self.locks);
        self.runtime
            .run(async move { locks.shutdown(within).await })
    }

    fn wait_forever(&self, request: LockRequest) -> Result<LockGuard> {
        let locks = Arc::clone(&self.locks);
        let taken = self
            .runtime
            .run(async move { wait_forever(&*locks, request).await })?;
        Ok(self.guard(taken))
    }

    fn guard(&self, guard: crate::LockGuard) -> LockGuard {
        LockGuard::new(guard, self.runtime.clone())
    }

    fn set(&self, set: crate::LockSet) -> LockSet {
        LockSet::new(set, self.runtime.clone())
    }
}

fn owned<K: AsRef<str>>(keys: impl IntoIterator<Item = K>) -> Vec<String> {
    let keys = keys.into_iter();
    keys.map(|key| key.as_ref().to_owned()).collect()
}

impl fmt::Debug for Client {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Client").field(&self.locks).finish()
    }
}
