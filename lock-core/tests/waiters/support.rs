//! Stores under test, and helpers that poll by hand.

use std::collections::HashMap;
use std::future::Future;
use std::pin::Pin;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use lock_core::backend::{
    ClaimId, Clock, HoldId, Keeper, KeeperRuntime, LeaseStore, LocalQueue, Released, Renewal,
    ReplyStats, Retry, async_trait,
};
use lock_core::{
    Capabilities, DistributedLock, Error, ErrorKind, FencingToken, HandOff, LockGuard, LockKey,
    LockRequest, MemoryLock, Result,
};

/// A time limit that a busy machine keeps, too.
pub(crate) const LONG: Duration = Duration::from_secs(20);

/// A memory backend that counts acquisitions.
#[derive(Debug)]
pub(crate) struct Counted {
    pub(crate) memory: MemoryLock,
    asked: AtomicUsize,
}

impl Counted {
    pub(crate) fn asked(&self) -> usize {
        self.asked.load(Ordering::SeqCst)
    }
}

#[async_trait]
impl DistributedLock for Counted {
    fn capabilities(&self) -> Capabilities {
        self.memory.capabilities()
    }

    fn keeper(&self) -> Option<&Keeper> {
        self.memory.keeper()
    }

    async fn acquire(&self, request: LockRequest) -> Result<Option<LockGuard>> {
        self.asked.fetch_add(1, Ordering::SeqCst);
        self.memory.acquire(request).await
    }

    async fn shutdown(&self, within: Duration) -> Result<()> {
        self.memory.shutdown(within).await
    }
}

/// Returns a store that counts acquisitions, and a client with hand-off on it.
pub(crate) fn counted(budget: Duration) -> (Arc<Counted>, HandOff) {
    let counted = Arc::new(Counted {
        memory: MemoryLock::new(),
        asked: AtomicUsize::new(0),
    });
    (Arc::clone(&counted), HandOff::new(counted, budget))
}

/// A client of a store without a queue, like a bare backend. Its waiters form a queue whose first
/// waiter polls the store. The keeper thread keeps its holds.
#[derive(Clone, Debug)]
pub(crate) struct Plain {
    store: Arc<PlainStore>,
    keeper: Keeper,
    line: LocalQueue,
    heard: Arc<ReplyStats>,
}

#[derive(Debug, Default)]
pub(crate) struct PlainStore {
    holders: Mutex<HashMap<LockKey, ClaimId>>,
    grants: AtomicU64,
    pub(crate) is_away: AtomicBool,
    pub(crate) asked: AtomicUsize,
    /// Maximum ttl that it grants.
    longest: Option<Duration>,
}

impl Plain {
    pub(crate) fn new() -> Self {
        Self::on(PlainStore::default())
    }

    /// Returns a client of a store that shortens each ttl to `longest`.
    pub(crate) fn shortening(longest: Duration) -> Self {
        Self::on(PlainStore {
            longest: Some(longest),
            ..PlainStore::default()
        })
    }

    fn on(store: PlainStore) -> Self {
        Self::client(Arc::new(store))
    }

    fn client(store: Arc<PlainStore>) -> Self {
        let keeper_runtime = KeeperRuntime::thread().expect("a thread");
        let lease: Arc<dyn LeaseStore> = Arc::<PlainStore>::clone(&store);
        Self {
            store,
            keeper: Keeper::new(Capabilities::new("plain"), lease, keeper_runtime),
            line: LocalQueue::new(),
            heard: Arc::default(),
        }
    }

    /// Returns another client of the same store.
    pub(crate) fn new_client(&self) -> Self {
        Self::client(Arc::clone(&self.store))
    }

    pub(crate) fn store(&self) -> &PlainStore {
        &self.store
    }

    pub(crate) fn handed_on(&self) -> HandOff {
        HandOff::new(Arc::new(self.clone()), HandOff::DEFAULT_BUDGET)
    }

    async fn take(&self, request: &LockRequest) -> Result<Option<LockGuard>> {
        let mut attempts = Retry::new(request, Duration::from_secs(1));
        let _turn = self.line.enter(&request.key, &mut attempts).await?;
        loop {
            let attempt = self.attempt(request).await;
            if !attempts.may_wait() {
                return attempt;
            }
            if let Some(guard) = attempts.note(attempt, self.heard.last())? {
                return Ok(Some(guard));
            }
            let pause = Duration::from_millis(2);
            if !attempts.pause(pause, std::future::pending()).await {
                return self.attempt(request).await;
            }
        }
    }

    async fn attempt(&self, request: &LockRequest) -> Result<Option<LockGuard>> {
        let mut claim = self.keeper.claim(request)?;
        let sent = claim.sending();
        let granted = self.store.take(claim.id());
        // The reply of a real store takes a moment.
        tokio::time::sleep(Duration::from_millis(1)).await;
        let granted = granted?;
        self.heard.note(sent);
        if granted {
            let grant = self.store.grants.fetch_add(1, Ordering::SeqCst) + 1;
            let ttl = self.store.granted(request.ttl());
            return Ok(claim.granted(FencingToken::from_grant(grant)?, sent, ttl));
        }
        claim.refused();
        Ok(None)
    }
}

impl PlainStore {
    fn check(&self) -> Result<()> {
        self.asked.fetch_add(1, Ordering::SeqCst);
        if self.is_away.load(Ordering::SeqCst) {
            return Err(Error::new(ErrorKind::Unavailable, "away"));
        }
        Ok(())
    }

    fn take(&self, id: &HoldId) -> Result<bool> {
        self.check()?;
        let mut holders = self.holders.lock().expect("no test panics with it");
        let holder = holders.entry(id.key().clone()).or_insert(id.claim());
        Ok(*holder == id.claim())
    }

    fn granted(&self, ttl: Duration) -> Duration {
        self.longest.map_or(ttl, |longest| longest.min(ttl))
    }
}

#[async_trait]
impl LeaseStore for PlainStore {
    async fn renew(&self, holds: &[HoldId]) -> Result<Vec<Renewal>> {
        self.check()?;
        let sent = Clock::Boot.now();
        let ttl = |hold: &HoldId| self.granted(hold.ttl());
        let renewed = |hold| Renewal::Held {
            sent,
            ttl: ttl(hold),
        };
        Ok(holds.iter().map(renewed).collect())
    }

    async fn release(&self, hold: &HoldId) -> Result<Released> {
        self.check()?;
        let was_held = {
            let mut holders = self.holders.lock().expect("no test panics with it");
            let is_ours = holders.get(hold.key()) == Some(&hold.claim());
            is_ours && holders.remove(hold.key()).is_some()
        };
        // The reply of a real store takes a moment.
        tokio::task::yield_now().await;
        Ok(match was_held {
            true => Released::Released,
            false => Released::AlreadyLost,
        })
    }
}

#[async_trait]
impl DistributedLock for Plain {
    fn capabilities(&self) -> Capabilities {
        self.keeper.capabilities()
    }

    fn keeper(&self) -> Option<&Keeper> {
        Some(&self.keeper)
    }

    async fn acquire(&self, request: LockRequest) -> Result<Option<LockGuard>> {
        let take = |request| {
            let lock = self.clone();
            async move { lock.take(&request).await }
        };
        self.keeper.acquire(request, take).await
    }

    async fn shutdown(&self, within: Duration) -> Result<()> {
        self.keeper.shutdown(within).await
    }
}

/// An acquisition that a test polls by hand.
pub(crate) type Acquiring = Pin<Box<dyn Future<Output = Result<Option<LockGuard>>> + Send>>;

pub(crate) fn acquire(locks: &Arc<dyn DistributedLock>, request: LockRequest) -> Acquiring {
    let locks = Arc::clone(locks);
    Box::pin(async move { locks.acquire(request).await })
}

/// Polls once, with a waker that does nothing.
pub(crate) fn poll<F: Future + Unpin>(future: &mut F) -> Option<F::Output> {
    let mut context = Context::from_waker(Waker::noop());
    match Pin::new(future).poll(&mut context) {
        Poll::Ready(output) => Some(output),
        Poll::Pending => None,
    }
}

/// Returns the guard of a wait without a limit.
pub(crate) fn granted(outcome: Result<Option<LockGuard>>) -> LockGuard {
    outcome.expect("no error").expect("a wait without an end")
}

pub(crate) fn grant(token: FencingToken) -> u64 {
    token.value() >> 14
}
