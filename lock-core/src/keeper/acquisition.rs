//! An acquisition of a client, before its backend asks the store.

use std::future::Future;
use std::sync::Arc;
use std::time::Duration;

use tokio::time::Instant;

use crate::backend::{Clock, Keeper};
use crate::keeper::inner::KeeperInner;
use crate::owner::enter::acquire_for;
use crate::waiter::watched_acquisition::{Acquiring, WatchedAcquisition};
use crate::{Error, LockGuard, LockKey, LockRequest, Mode, Result};

/// Maximum time that a try waits for a release of its own client.
const OWN_RELEASE_LIMIT: Duration = Duration::from_secs(2);

impl Keeper {
    /// Runs the acquisition that `take` makes for `request`. Backends call it in
    /// [`acquire`](crate::DistributedLock::acquire).
    ///
    /// It ends the acquisition when the client is shut down, gives it up while the waiter is not
    /// polled, and adds operation, key and backend to errors. After an acquisition was given up,
    /// the waiter's next poll calls `take` again.
    ///
    /// A request that does not wait starts once this client has no pending release of its key. So
    /// its own client is not the reason of a refusal. It starts after 2 seconds at the latest.
    ///
    /// ```
    /// use lock_core::backend::Keeper;
    /// use lock_core::{LockGuard, LockRequest, Result};
    ///
    /// #[derive(Clone)]
    /// struct MyLock {
    ///     keeper: Keeper,
    /// }
    ///
    /// impl MyLock {
    ///     async fn take(&self, request: &LockRequest) -> Result<Option<LockGuard>> {
    /// #       let _ = request;
    ///         Ok(None)
    ///     }
    ///
    ///     async fn acquire(&self, request: LockRequest) -> Result<Option<LockGuard>> {
    ///         let take = |request| {
    ///             let lock = self.clone();
    ///             async move { lock.take(&request).await }
    ///         };
    ///         self.keeper.acquire(request, take).await
    ///     }
    /// }
    /// ```
    ///
    /// # Errors
    ///
    /// The errors of `take`, and [`Closed`](crate::ErrorKind::Closed) after [`shutdown`](Self::shutdown).
    ///
    /// # Cancel safety
    ///
    /// Dropping the future drops the future of `take`.
    pub async fn acquire<F>(
        &self,
        mut request: LockRequest,
        take: impl Fn(LockRequest) -> F,
    ) -> Result<Option<LockGuard>>
    where
        F: Future<Output = Result<Option<LockGuard>>> + Send + 'static,
    {
        let owner = request.owner.take();
        let asking = |request| self.acquire_from_store(request, take);
        match owner {
            // Boxed, so that waiters without an owner need no memory for it.
            Some(owner) => Box::pin(acquire_for(owner, &self.inner, request, asking)).await,
            None => asking(request).await,
        }
    }

    async fn acquire_from_store<F>(
        &self,
        request: LockRequest,
        take: impl Fn(LockRequest) -> F,
    ) -> Result<Option<LockGuard>>
    where
        F: Future<Output = Result<Option<LockGuard>>> + Send + 'static,
    {
        if request.arrived.is_some() {
            // The hand-off in front of this keeper monitors its waiters itself.
            let work = Box::pin(take(request.clone()));
            return self.acquire_once(&request, work).await;
        }
        let _counted = self.inner.waiters.enter(&request);
        let arrived = Clock::Boot.now();
        let request = LockRequest {
            arrived: Some(arrived),
            ..request
        };
        let begin = || -> Acquiring {
            let (keeper, request) = (Arc::clone(&self.inner), request.clone());
            let work = take(request.clone());
            Box::pin(async move { keeper.pass(&request, work).await })
        };
        let outcome = WatchedAcquisition::new(self, &request, arrived)
            .run(begin)
            .await;
        outcome.map_err(|error| self.about(error, &request.key))
    }

    /// Like [`acquire`](Self::acquire), for a `take` that cannot be called again.
    ///
    /// While its future is not polled, it may block other waiters.
    ///
    /// # Errors
    ///
    /// The errors of `take`, and [`Closed`](crate::ErrorKind::Closed) after [`shutdown`](Self::shutdown).
    ///
    /// # Cancel safety
    ///
    /// Dropping the future drops the future of `take`.
    pub async fn acquiring<F>(
        &self,
        mut request: LockRequest,
        take: impl FnOnce(LockRequest) -> F,
    ) -> Result<Option<LockGuard>>
    where
        F: Future<Output = Result<Option<LockGuard>>>,
    {
        let owner = request.owner.take();
        let asking = async |request: LockRequest| {
            let work = take(request.clone());
            self.acquire_once(&request, work).await
        };
        match owner {
            // Boxed, so that waiters without an owner need no memory for it.
            Some(owner) => Box::pin(acquire_for(owner, &self.inner, request, asking)).await,
            None => asking(request).await,
        }
    }

    async fn acquire_once(
        &self,
        request: &LockRequest,
        work: impl Future<Output = Result<Option<LockGuard>>>,
    ) -> Result<Option<LockGuard>> {
        // The hand-off in front of this keeper counts its waiters itself, and `acquire` its own.
        let _counted = match request.arrived {
            Some(_) => None,
            None => self.inner.waiters.enter(request),
        };
        let outcome = self.inner.pass(request, work).await;
        outcome.map_err(|error| self.about(error, &request.key))
    }

    fn about(&self, error: Error, key: &LockKey) -> Error {
        error
            .with_operation("acquire")
            .with_key(key)
            .with_backend(self.inner.capabilities.backend)
    }
}

impl KeeperInner {
    /// Runs `work` while the client is open. A try starts once no release of its own client can
    /// block it.
    async fn pass<T>(
        &self,
        request: &LockRequest,
        work: impl Future<Output = Result<T>>,
    ) -> Result<T> {
        let work = async {
            self.hold_try_back(request).await;
            work.await
        };
        self.gate.pass(work).await
    }

    /// Waits for this client's pending releases of the key, if the request itself does not wait.
    async fn hold_try_back(&self, request: &LockRequest) {
        let (key, mode) = (&request.key, request.mode);
        let is_try = || {
            request
                .wait()
                .deadline()
                .is_some_and(|ends| ends <= Instant::now())
        };
        if self.releases.may_free(key, mode) && is_try() {
            self.await_own_releases(key, mode).await;
        }
    }

    /// Waits for this client's pending releases that may block a claim for `key` in `mode`, for at
    /// most 2 seconds.
    pub(crate) async fn await_own_releases(&self, key: &LockKey, mode: Mode) {
        let limit = self.clock.now().plus(OWN_RELEASE_LIMIT);
        tokio::select! {
            () = self.releases.await_releases(key, mode) => {}
            () = self.clock.sleep_until(limit) => {}
        }
    }
}
