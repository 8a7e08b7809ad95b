//! A client of the store, with the checks that most cases need.

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use lock_core::backend::Released;
use lock_core::{DistributedLock, ErrorKind, LockGuard, LockRequest, Wait};
use tokio::time::sleep;

use crate::assert_excluded;
use crate::eventually::within;

/// An acquisition that has to wait.
pub(crate) type Waiting = Pin<Box<dyn Future<Output = Option<LockGuard>> + Send>>;

/// The time for a waiter to enter the queue, where the test cannot observe that.
///
/// A slower waiter makes a case test less, but not fail.
pub(crate) const SETTLE: Duration = Duration::from_millis(50);

#[derive(Clone, Debug)]
pub(crate) struct Client {
    locks: Arc<dyn DistributedLock>,
    /// Maximum time for an answer.
    prompt: Duration,
}

impl Client {
    pub(crate) fn new(locks: Arc<dyn DistributedLock>, prompt: Duration) -> Self {
        Self { locks, prompt }
    }

    pub(crate) fn locks(&self) -> Arc<dyn DistributedLock> {
        Arc::clone(&self.locks)
    }

    /// Returns an acquisition that owns its data, so that it can be spawned, polled or dropped.
    pub(crate) fn acquire(
        &self,
        request: LockRequest,
    ) -> impl Future<Output = Option<LockGuard>> + Send + use<> {
        self.acquire_unless(request, |_| false)
    }

    /// Returns an acquisition with a wait so short that it may end before the store answers.
    ///
    /// Such an end is the error `Unavailable`, not a refusal, since the state of the lock is
    /// unknown. This method returns `None` for both.
    pub(crate) fn acquire_briefly(
        &self,
        request: LockRequest,
    ) -> impl Future<Output = Option<LockGuard>> + Send + use<> {
        self.acquire_unless(request, |kind| kind == ErrorKind::Unavailable)
    }

    fn acquire_unless(
        &self,
        request: LockRequest,
        gives_up: fn(ErrorKind) -> bool,
    ) -> impl Future<Output = Option<LockGuard>> + Send + use<> {
        let locks = self.locks();
        async move {
            let key = request.key.clone();
            match locks.acquire(request).await {
                Ok(answer) => answer,
                Err(error) if gives_up(error.kind()) => None,
                Err(error) => panic!(
                    "acquiring {key:?} failed, which is never how a held lock is told: {error:?}"
                ),
            }
        }
    }

    /// Takes a lock if it is free.
    pub(crate) async fn try_take(&self, request: &LockRequest) -> Option<LockGuard> {
        let what = format!(
            "an answer to a request for {:?} that does not wait",
            request.key
        );
        let request = request.clone().with_wait(Wait::No);
        within(self.prompt, &what, self.acquire(request)).await
    }

    /// Takes a lock that has to be free.
    pub(crate) async fn take(&self, request: &LockRequest) -> LockGuard {
        match self.try_take(request).await {
            Some(guard) => guard,
            None => panic!(
                "{:?} {:?} was refused although it is free",
                request.mode, request.key
            ),
        }
    }

    /// Takes a lock that is free or becomes free soon.
    pub(crate) async fn wait_for(&self, request: &LockRequest) -> LockGuard {
        let what = format!("{:?} {:?} granted to a waiter", request.mode, request.key);
        let request = request.clone().with_wait(Wait::Forever);
        within(self.prompt, &what, self.acquire(request))
            .await
            .unwrap_or_else(|| panic!("a wait without end was given up"))
    }

    /// Asserts that a lock is refused.
    pub(crate) async fn is_refused(&self, request: &LockRequest, why: &str) {
        let guard = self.try_take(request).await;
        assert_excluded!(
            guard.is_none(),
            "{:?} {:?} was granted although {why}",
            request.mode,
            request.key
        );
    }

    /// Asserts that a lock is refused while `holder` holds it, and that `holder` is still held.
    pub(crate) async fn is_refused_beside(&self, holder: &LockGuard, request: &LockRequest) {
        let guard = self.try_take(request).await;
        assert_excluded!(
            guard.is_none() || !holder.is_held(),
            "{guard:?} was granted beside {holder:?}"
        );
        assert!(guard.is_none(), "{holder:?} was lost");
    }

    /// Starts to wait for a lock that another guard holds.
    pub(crate) async fn line_up(&self, request: &LockRequest) -> Waiting {
        let request = request.clone().with_wait(Wait::Forever);
        let mut waiting: Waiting = Box::pin(self.acquire(request));
        keeps_waiting(&mut waiting, SETTLE).await;
        waiting
    }

    /// Returns the lock of a waiter that no other claim blocks any more.
    pub(crate) async fn served(&self, waiting: Waiting, what: &str) -> LockGuard {
        within(self.prompt, what, waiting)
            .await
            .unwrap_or_else(|| panic!("a wait without end was given up instead of: {what}"))
    }
}

/// Releases a lock on a store that answers.
pub(crate) async fn release(guard: LockGuard) -> Released {
    let key = guard.key().clone();
    match guard.release().await {
        Ok(released) => released,
        Err(error) => panic!("the release of {key:?} was not confirmed: {error:?}"),
    }
}

/// Asserts that a waiter waits for `duration` while another guard holds the lock.
pub(crate) async fn keeps_waiting(waiting: &mut Waiting, duration: Duration) {
    keeps_waiting_until(waiting, sleep(duration)).await;
}

/// Asserts that a waiter waits until `end` resolves, which may require polls of the waiter.
pub(crate) async fn keeps_waiting_until<F: Future>(waiting: &mut Waiting, end: F) {
    tokio::select! {
        answer = waiting => match answer {
            Some(guard) => assert_excluded!(false, "{guard:?} was granted although it is held by someone else"),
            None => panic!("a waiter gave up long before its wait is over"),
        },
        _ = end => {}
    }
}
