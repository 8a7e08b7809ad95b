//! A store that is connected when a test lets it.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use lock_testkit::eventually;
use polylock::backend::Backend;
use polylock::{Capabilities, DistributedLock, Error, ErrorKind, MemoryLock, Registry};
use tokio::sync::Semaphore;

/// A store in this process that is connected when the test lets it.
#[derive(Clone)]
pub(crate) struct Gate {
    /// One permit for each attempt that may end.
    pub(crate) open: Arc<Semaphore>,
    /// The number of attempts so far, and of those that were neither finished nor dropped.
    pub(crate) begun: Arc<AtomicUsize>,
    pub(crate) pending: Arc<AtomicUsize>,
    /// The number of attempts that fail first.
    pub(crate) failures: Arc<AtomicUsize>,
    pub(crate) store: MemoryLock,
}

/// An attempt that is pending.
struct Pending(Arc<AtomicUsize>);

impl Drop for Pending {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::SeqCst);
    }
}

impl Gate {
    pub(crate) fn new(failures: usize) -> Self {
        Self {
            open: Arc::new(Semaphore::new(0)),
            begun: Arc::default(),
            pending: Arc::default(),
            failures: Arc::new(AtomicUsize::new(failures)),
            store: MemoryLock::new(),
        }
    }

    async fn connect(self) -> polylock::Result<Arc<dyn DistributedLock>> {
        self.begun.fetch_add(1, Ordering::SeqCst);
        self.pending.fetch_add(1, Ordering::SeqCst);
        let _pending = Pending(Arc::clone(&self.pending));
        self.open.acquire().await.expect("never closed").forget();
        let fails = |left: usize| left.checked_sub(1);
        if self
            .failures
            .fetch_update(Ordering::SeqCst, Ordering::SeqCst, fails)
            .is_ok()
        {
            return Err(Error::new(
                ErrorKind::Unavailable,
                "the shelf is not there yet",
            ));
        }
        Ok(Arc::new(self.store))
    }

    pub(crate) fn registry(&self) -> Registry {
        let gate = self.clone();
        let backend = Backend::new("shelf", move |_options| gate.clone().connect())
            .with_check(|_options| Ok(Capabilities::new("shelf").with_shared()));
        let mut registry = Registry::new();
        registry.register(backend).expect("the scheme is free");
        registry
    }

    pub(crate) fn locks(&self) -> Arc<dyn DistributedLock> {
        let locks = self.registry().connect_lazy("shelf://one");
        locks.expect("nothing is wrong")
    }

    pub(crate) fn begun(&self) -> usize {
        self.begun.load(Ordering::SeqCst)
    }

    pub(crate) async fn is_asked(&self, attempts: usize) {
        let is_asked = || async { self.begun() == attempts };
        eventually(Duration::from_secs(5), "an attempt", is_asked).await;
    }
}
