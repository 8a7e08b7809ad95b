//! A custom backend in about 130 lines, named by URL, and the proof that it keeps the contract.
//!
//! The store is a map in this process; replace it by a client of a real store. The map supports
//! only exclusive locks and cannot push, so the backend declares just that, and waiters poll.
//! `cargo run --example custom_backend` connects by `shelf://` and runs every case of the
//! conformance kit.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use lock_testkit::{Case, Store, Summary};
use polylock::backend::{
    Backend, BackendOptions, Backoff, ClaimId, Clock, HoldId, Keeper, LeaseStore, LocalQueue,
    Moment, Released, Renewal, Retry, async_trait,
};
use polylock::{
    Capabilities, DistributedLock, Error, ErrorKind, FencingToken, KeeperMode, LockGuard, LockKey,
    LockRequest, LossReason, Registry, Result,
};

/// The store: a map in this process.
#[derive(Debug, Default)]
struct Shelf(Mutex<Content>);

#[derive(Debug, Default)]
struct Content {
    /// The claim that holds each key, and the end of its ttl.
    holders: HashMap<LockKey, (ClaimId, Moment)>,
    grants: u64,
}

impl Shelf {
    fn open(&self) -> MutexGuard<'_, Content> {
        let mut content = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        content
            .holders
            .retain(|_, (_, expires)| *expires > Clock::Runtime.now());
        content
    }

    fn take(&self, hold: &HoldId) -> Option<u64> {
        let mut content = self.open();
        if content.holders.contains_key(hold.key()) {
            return None;
        }
        let expires = Clock::Runtime.now().plus(hold.ttl());
        content
            .holders
            .insert(hold.key().clone(), (hold.claim(), expires));
        content.grants += 1;
        Some(content.grants)
    }
}

#[async_trait]
impl LeaseStore for Shelf {
    async fn renew(&self, holds: &[HoldId]) -> Result<Vec<Renewal>> {
        let (mut content, sent) = (self.open(), Clock::Runtime.now());
        let renew = |hold: &HoldId| match content.holders.get_mut(hold.key()) {
            Some((owner, expires)) if *owner == hold.claim() => {
                *expires = sent.plus(hold.ttl());
                Renewal::Held {
                    sent,
                    ttl: hold.ttl(),
                }
            }
            _ => Renewal::Lost(LossReason::Removed),
        };
        Ok(holds.iter().map(renew).collect())
    }

    async fn release(&self, hold: &HoldId) -> Result<Released> {
        let mut content = self.open();
        if content
            .holders
            .get(hold.key())
            .is_none_or(|(owner, _)| *owner != hold.claim())
        {
            return Ok(Released::AlreadyLost);
        }
        content.holders.remove(hold.key());
        Ok(Released::Released)
    }
}

/// A client of the store.
#[derive(Clone, Debug)]
struct ShelfLock {
    shelf: Arc<Shelf>,
    keeper: Keeper,
    line: LocalQueue,
    /// Maximum time between two polls.
    pause: Duration,
}

#[async_trait]
impl DistributedLock for ShelfLock {
    fn capabilities(&self) -> Capabilities {
        self.keeper.capabilities()
    }

    fn keeper(&self) -> Option<&Keeper> {
        Some(&self.keeper)
    }

    async fn acquire(&self, request: LockRequest) -> Result<Option<LockGuard>> {
        let take = |request| {
            let lock = self.clone();
            async move { lock.wait(&request).await }
        };
        self.keeper.acquire(request, take).await
    }

    async fn shutdown(&self, within: Duration) -> Result<()> {
        self.keeper.shutdown(within).await
    }
}

impl ShelfLock {
    fn connect(shelf: Arc<Shelf>, options: &BackendOptions) -> Result<Arc<dyn DistributedLock>> {
        // A backend rejects the settings that it does not support.
        let has_more = !options.location().is_empty() || options.namespace().as_str().is_some();
        if has_more || options.keeper() == Some(KeeperMode::Thread) {
            return Err(Error::new(
                ErrorKind::Unsupported,
                "shelf:// has one store, without namespaces, on the caller's runtime: leave location, namespace and keeper out",
            ));
        }
        let lease = Arc::<Shelf>::clone(&shelf);
        Ok(Arc::new(Self {
            shelf,
            keeper: Keeper::in_process(Capabilities::new("shelf"), lease),
            line: LocalQueue::new(),
            pause: options
                .duration("pause")?
                .unwrap_or(Duration::from_millis(20)),
        }))
    }

    async fn wait(&self, request: &LockRequest) -> Result<Option<LockGuard>> {
        let mut attempts = Retry::new(request, Duration::from_secs(1));
        // Waiters of one process are served in order, and only the first waiter polls.
        let Some(_turn) = self.line.enter(&request.key, &mut attempts).await? else {
            return Ok(None);
        };
        let mut backoff = Backoff::new(Duration::from_millis(1), self.pause);
        let mut claim = self.keeper.claim(request)?;
        loop {
            let sent = claim.sending();
            if let Some(grant) = self.shelf.take(claim.id()) {
                let ttl = claim.id().ttl();
                return Ok(claim.granted(FencingToken::from_grant(grant)?, sent, ttl));
            }
            claim.refused();
            if !attempts.may_wait() || attempts.is_over() {
                return Ok(None);
            }
            let pause = backoff.next_pause();
            attempts.pause(pause, std::future::pending()).await;
        }
    }
}

/// Creates a registry in which `shelf://`, such as `shelf://?pause=5ms`, names `shelf`.
fn registry(shelf: Arc<Shelf>) -> Result<Registry> {
    let connect = move |options: BackendOptions| {
        let shelf = Arc::clone(&shelf);
        async move { ShelfLock::connect(shelf, &options) }
    };
    let mut registry = Registry::new();
    registry.register(Backend::new("shelf", connect).with_settings(["pause"]))?;
    Ok(registry)
}

/// The store under test: creates clients, and lists the entries that are left.
struct UnderTest(Arc<Shelf>);

#[async_trait]
impl Store for UnderTest {
    async fn client(&self) -> Arc<dyn DistributedLock> {
        let registry = registry(Arc::clone(&self.0)).expect("the scheme is free");
        // Without hand-off, the kit tests the backend alone.
        let client = registry.connect("shelf://?hand_off=0s").await;
        client.expect("it is always there")
    }

    async fn residue(&self) -> Vec<String> {
        self.0
            .open()
            .holders
            .keys()
            .map(ToString::to_string)
            .collect()
    }

    async fn remove(&self, key: &LockKey) -> bool {
        self.0.open().holders.remove(key).is_some()
    }
}

async fn new_store(_case: Case) -> UnderTest {
    UnderTest(Arc::default())
}

fn main() {
    let mut summary = Summary::new();
    for case in lock_testkit::cases() {
        summary.add(case, lock_testkit::run(case, new_store));
        println!("{case}");
    }
    println!("{summary}");
}

#[cfg(test)]
lock_testkit::conformance!(new_store);
