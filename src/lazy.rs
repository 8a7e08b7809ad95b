//! A store that is connected when it is first used.

use std::fmt;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use async_trait::async_trait;
use lock_core::backend::{Backoff, Clock, Moment, Mutex, ReplyStats, Retry};
use lock_core::{
    Capabilities, DistributedLock, Error, ErrorKind, Health, KeyInfo, LockGuard, LockKey,
    LockRequest, Result, Wait,
};
use tokio::runtime::Handle;
use tokio::sync::{Notify, watch};
use tokio::task::AbortHandle;
use tokio::time::timeout;

use crate::store::Store;

/// Time that a request waits for one attempt to connect; a third of the ttl if that is less.
const REPLY_LIMIT: Duration = Duration::from_secs(2);

/// Age of an attempt from which on another runtime may begin its own. All attempts of the backends
/// end before, unless their runtime is not driven.
const ATTEMPT_LIMIT: Duration = Duration::from_secs(20);

/// First and longest pause between two attempts of one waiting request.
const PAUSES: [Duration; 2] = [Duration::from_millis(20), Duration::from_secs(1)];

/// A store that is connected when it is first used.
pub(crate) struct Lazy {
    inner: Arc<Inner>,
}

struct Inner {
    store: Store,
    /// The capabilities without a connection.
    declared: Capabilities,
    connected: OnceLock<Arc<dyn DistributedLock>>,
    progress: Mutex<Progress>,
    shut_down: Notify,
    /// The number of requests that wait for the connection.
    waiters: AtomicUsize,
    /// Stays without an answer: a client that was never connected has had none.
    replies: ReplyStats,
}

/// Guards the first connection, too: it is kept only while the client is open.
#[derive(Default)]
struct Progress {
    is_closed: bool,
    attempt: Option<Attempt>,
}

/// An attempt to connect, which all callers wait for.
struct Attempt {
    begun: Moment,
    outcome: Outcome,
    task: AbortHandle,
}

type Outcome = watch::Receiver<Option<Result<Arc<dyn DistributedLock>>>>;

/// One request that waits for the connection, until this value is dropped.
struct Waiting<'a>(&'a AtomicUsize);

impl<'a> Waiting<'a> {
    fn count(waiters: &'a AtomicUsize) -> Self {
        waiters.fetch_add(1, Ordering::Relaxed);
        Self(waiters)
    }
}

impl Drop for Waiting<'_> {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}

impl Lazy {
    /// Creates the client of `store`, after the checks that need no connection.
    pub(crate) fn new(store: Store) -> Result<Self> {
        let inner = Inner {
            declared: store.check()?,
            store,
            connected: OnceLock::new(),
            progress: Mutex::default(),
            shut_down: Notify::new(),
            waiters: AtomicUsize::new(0),
            replies: ReplyStats::new(),
        };
        Ok(Self {
            inner: Arc::new(inner),
        })
    }
}

impl Inner {
    /// Returns the connected client, connecting for as long as `request` allows.
    async fn connected(
        self: &Arc<Self>,
        request: &LockRequest,
    ) -> Result<Arc<dyn DistributedLock>> {
        if let Some(locks) = self.connected.get() {
            return Ok(Arc::clone(locks));
        }
        let _counted = (request.wait() != Wait::No).then(|| Waiting::count(&self.waiters));
        let mut retry = Retry::new(request, REPLY_LIMIT);
        let [first, longest] = PAUSES;
        let mut backoff = Backoff::new(first, longest);
        loop {
            let limit = retry.patience(self.replies.last());
            let attempt = timeout(limit, self.attempt()).await;
            let attempt = attempt.unwrap_or_else(|_| Err(self.store.not_connected(limit)));
            if !retry.may_wait() {
                return attempt;
            }
            if let Some(locks) = retry.note(attempt.map(Some), self.replies.last())? {
                return Ok(locks);
            }
            // Registered first, so that the shutdown wakes this waiter if the check comes too early.
            let closing = self.shut_down.notified();
            self.check_open()?;
            retry.pause(backoff.next_pause(), closing).await;
        }
    }

    /// Returns the connected client after at most one attempt to connect.
    async fn connected_now(self: &Arc<Self>) -> Result<Arc<dyn DistributedLock>> {
        if let Some(locks) = self.connected.get() {
            return Ok(Arc::clone(locks));
        }
        let attempt = timeout(REPLY_LIMIT, self.attempt()).await;
        attempt.unwrap_or_else(|_| Err(self.store.not_connected(REPLY_LIMIT)))
    }

    /// Waits for the pending attempt to connect, and begins one if there is none.
    async fn attempt(self: &Arc<Self>) -> Result<Arc<dyn DistributedLock>> {
        loop {
            let mut outcome = self.join()?;
            // The sender is dropped with the runtime of the attempt, or at the shutdown.
            if let Ok(outcome) = outcome.wait_for(Option::is_some).await
                && let Some(connected) = &*outcome
            {
                return connected.clone();
            }
            tokio::task::yield_now().await;
        }
    }

    /// Returns the outcome of the pending attempt, or of a new one on the caller's runtime.
    fn join(self: &Arc<Self>) -> Result<Outcome> {
        let runtime = Handle::try_current().map_err(|source| {
            let message = "no Tokio runtime is running: acquire locks inside one";
            Error::new(ErrorKind::Config, message).with_source(source)
        })?;
        let now = Clock::Boot.now();
        let mut progress = self.progress.lock();
        if progress.is_closed {
            return Err(self.closed());
        }
        if let Some(attempt) = &progress.attempt
            && attempt.outcome.has_changed().is_ok()
            && now.since(attempt.begun) < ATTEMPT_LIMIT
        {
            return Ok(attempt.outcome.clone());
        }
        let (sender, outcome) = watch::channel(None);
        let this = Arc::clone(self);
        let task = runtime.spawn(async move {
            let connected = this.store.connect().await;
            let connected = connected.and_then(|locks| this.settle(locks));
            // The waiting callers may be gone.
            let _unread = sender.send(Some(connected));
            // The sender is dropped here, so that the next caller begins anew after a failure.
        });
        let earlier = progress.attempt.replace(Attempt {
            begun: now,
            outcome: outcome.clone(),
            task: task.abort_handle(),
        });
        drop(progress);
        if let Some(earlier) = earlier {
            earlier.task.abort();
        }
        Ok(outcome)
    }

    /// Keeps the first connected client, and returns it; an error after the shutdown, which would
    /// not shut this client down.
    fn settle(&self, locks: Arc<dyn DistributedLock>) -> Result<Arc<dyn DistributedLock>> {
        let progress = self.progress.lock();
        if progress.is_closed {
            return Err(self.closed());
        }
        Ok(Arc::clone(self.connected.get_or_init(|| locks)))
    }

    fn check_open(&self) -> Result<()> {
        match self.progress.lock().is_closed {
            true => Err(self.closed()),
            false => Ok(()),
        }
    }

    fn closed(&self) -> Error {
        let message = "this client was shut down: connect a new one";
        Error::new(ErrorKind::Closed, message)
            .with_operation("acquire")
            .with_backend(self.declared.backend)
    }

    /// Refuses new attempts and ends the pending one.
    fn close(&self) {
        let mut progress = self.progress.lock();
        progress.is_closed = true;
        let pending = progress.attempt.take();
        drop(progress);
        if let Some(attempt) = pending {
            attempt.task.abort();
        }
        self.shut_down.notify_waiters();
    }
}

#[async_trait]
impl DistributedLock for Lazy {
    fn capabilities(&self) -> Capabilities {
        match self.inner.connected.get() {
            Some(locks) => locks.capabilities(),
            None => self.inner.declared.clone(),
        }
    }

    async fn acquire(&self, mut request: LockRequest) -> Result<Option<LockGuard>> {
        self.inner.store.defaults().apply(&mut request);
        let connected = self.inner.connected(&request).await;
        let locks = connected.map_err(|error| match error.kind() {
            ErrorKind::Closed => error.with_key(&request.key),
            _ => error,
        })?;
        locks.acquire(request).await
    }

    /// Before the connection, the first lock of a set is awaited like any other lock.
    async fn acquire_together(&self, requests: &[LockRequest]) -> Result<Option<Vec<LockGuard>>> {
        let Some(locks) = self.inner.connected.get() else {
            return Ok(None);
        };
        let mut requests = requests.to_vec();
        for request in &mut requests {
            self.inner.store.defaults().apply(request);
        }
        locks.acquire_together(&requests).await
    }

    /// Connects, too, and returns the health of the connected client.
    async fn health(&self) -> Health {
        let waiters = self.inner.waiters.load(Ordering::Relaxed);
        match self.inner.connected_now().await {
            Ok(locks) => locks.health().await.with_more_waiters(waiters),
            Err(error) => {
                let mut health = Health::new(Err(error));
                (health.holds, health.waiters) = (Some(0), Some(waiters));
                health
            }
        }
    }

    /// Connects, too.
    async fn inspect_key(&self, key: &LockKey) -> Result<KeyInfo> {
        self.inner.connected_now().await?.inspect_key(key).await
    }

    async fn shutdown(&self, within: Duration) -> Result<()> {
        self.inner.close();
        match self.inner.connected.get() {
            Some(locks) => locks.shutdown(within).await,
            None => Ok(()),
        }
    }
}

impl Drop for Lazy {
    fn drop(&mut self) {
        self.inner.close();
    }
}

impl fmt::Debug for Lazy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Lazy")
            .field("store", &self.inner.store)
            .field("connected", &self.inner.connected.get())
            .finish_non_exhaustive()
    }
}
