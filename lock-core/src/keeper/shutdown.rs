//! The end of a client: what is held is given back, what waits is cut off.

use std::future::Future;
use std::sync::Arc;
use std::time::Duration;

use tokio::time::Instant;

use crate::backend::{Clock, Keeper};
use crate::keeper::inner::KeeperInner;
use crate::waiter::driven::{Acquiring, Driven};
use crate::{Error, ErrorKind, LockGuard, LockKey, LockRequest, LossReason, Result};

/// The time that a try waits for a release of its own client, as long as for an answer of a store.
const RELEASE_LIMIT: Duration = Duration::from_secs(2);

impl Keeper {
    /// Runs the acquisition that `take` makes for `request`: cuts it off when the client is shut
    /// down, gives it up while it is not polled, and tells in errors what it was about. Backends do
    /// nothing else in their
    /// [`acquire`](crate::DistributedLock::acquire).
    ///
    /// One that does not wait for others begins when no release of that key by this client is under
    /// way any more, so that it is not refused by what its own client is giving back; after 2
    /// seconds it begins nevertheless.
    ///
    /// `take` is called again after its future was given up, when the waiter is polled the next
    /// time.
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
    /// The errors of `take`, and [`Closed`](ErrorKind::Closed) after [`shutdown`](Self::shutdown).
    ///
    /// # Cancel safety
    ///
    /// Dropping the future drops that of `take`.
    pub async fn acquire<F>(
        &self,
        request: LockRequest,
        take: impl Fn(LockRequest) -> F,
    ) -> Result<Option<LockGuard>>
    where
        F: Future<Output = Result<Option<LockGuard>>> + Send + 'static,
    {
        if request.arrived.is_some() {
            // The hand-off in front looks after what is not polled.
            let work = Box::pin(take(request.clone()));
            return self.acquiring(&request, work).await;
        }
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
        let outcome = Driven::new(self, &request, arrived).run(begin).await;
        outcome.map_err(|error| self.about(error, &request.key))
    }

    /// Like [`acquire`](Self::acquire), for work that cannot be begun anew: while it is not polled,
    /// it may keep the lock from others.
    ///
    /// # Errors
    ///
    /// The errors of `work`, and [`Closed`](ErrorKind::Closed) after [`shutdown`](Self::shutdown).
    ///
    /// # Cancel safety
    ///
    /// Dropping the future drops `work`.
    pub async fn acquiring<T>(
        &self,
        request: &LockRequest,
        work: impl Future<Output = Result<T>>,
    ) -> Result<T> {
        let outcome = self.inner.pass(request, work).await;
        outcome.map_err(|error| self.about(error, &request.key))
    }

    fn about(&self, error: Error, key: &LockKey) -> Error {
        error
            .with_operation("acquire")
            .with_key(key)
            .with_backend(self.inner.capabilities.backend)
    }

    /// Ends every hold and every acquisition of this client, and waits at most `within` until the
    /// store has confirmed that nothing of them is left; see
    /// [`DistributedLock::shutdown`](crate::DistributedLock::shutdown). Holds that were lost before
    /// stay where they are for their [lock delay](LockRequest::lock_delay).
    ///
    /// # Errors
    ///
    /// [`Unavailable`](ErrorKind::Unavailable) when something is unconfirmed by then: it goes on in
    /// the background, and at the latest the ttl ends it. [`Config`](ErrorKind::Config) outside a
    /// Tokio runtime where holds are kept by the caller; nothing is done then.
    ///
    /// # Cancel safety
    ///
    /// Dropping the future stops the waiting only.
    pub async fn shutdown(&self, within: Duration) -> Result<()> {
        let keeper = &self.inner;
        let begun = keeper.clock.now();
        let runtime = keeper.keeper_runtime.handle()?;
        keeper.gate.close();
        for hold in keeper.registry.all() {
            if hold.end(LossReason::Closed) && hold.closed_until().is_none() {
                keeper.release_from(&runtime, &hold);
            }
        }
        let under_way = tokio::select! {
            // First, so that a shutdown that has nothing to wait for succeeds within no time.
            biased;
            // What is counted after that has only met the closed gate.
            () = keeper.gate.drained() => 0,
            () = keeper.clock.sleep_until(begun.plus(within)) => keeper.gate.how_many(),
        };
        match under_way + keeper.gate.how_many_unconfirmed(begun) {
            0 => Ok(()),
            left => Err(self.not_confirmed(left)),
        }
    }

    fn not_confirmed(&self, left: usize) -> Error {
        Error::new(
            ErrorKind::Unavailable,
            format!("the store has not confirmed {left} releases and acquisitions: the ttl ends what is left of them"),
        )
        .with_operation("shutdown")
        .with_backend(self.inner.capabilities.backend)
    }
}

impl KeeperInner {
    /// Runs `work`, a try as soon as nothing of its own client is in its way, as long as the client
    /// is open.
    async fn pass<T>(
        &self,
        request: &LockRequest,
        work: impl Future<Output = Result<T>>,
    ) -> Result<T> {
        let work = async {
            self.await_own_releases(request).await;
            work.await
        };
        self.gate.pass(work).await
    }

    /// Waits for what this client gives back of the key, if the request does not wait for anything
    /// else.
    async fn await_own_releases(&self, request: &LockRequest) {
        let (key, mode) = (&request.key, request.mode);
        let is_try = || {
            request
                .wait()
                .deadline()
                .is_some_and(|ends| ends <= Instant::now())
        };
        if !self.releases.may_free(key, mode) || !is_try() {
            return;
        }
        let limit = self.clock.now().plus(RELEASE_LIMIT);
        tokio::select! {
            () = self.releases.none_may_free(key, mode) => {}
            () = self.clock.sleep_until(limit) => {}
        }
    }
}
