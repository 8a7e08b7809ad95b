//! An acquisition that lapses while its waiter is not polled, and restarts at the next poll.

use std::future::poll_fn;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::task::{Context, Poll, Wake, Waker};
use std::time::Duration;

use tokio::runtime::Handle;

use crate::backend::{Keeper, Moment};
use crate::mutex::Mutex;
use crate::waiter::watchdog::{self, Polling, Progress, Watched};
use crate::{LockGuard, LockKey, LockRequest, Result};

/// An acquisition in progress.
pub(crate) type Acquiring = Pin<Box<dyn Future<Output = Result<Option<LockGuard>>> + Send>>;

/// An acquisition in progress, registered with the watchdog.
pub(crate) struct WatchedAcquisition {
    work: Mutex<Option<Acquiring>>,
    polling: Polling,
    keeper: Keeper,
    key: LockKey,
    arrived: Moment,
    ttl: Duration,
    lapses: AtomicU32,
    runtime: Option<Handle>,
}

impl WatchedAcquisition {
    /// Creates the acquisition of a waiter that arrived at `arrived`.
    pub(crate) fn new(keeper: &Keeper, request: &LockRequest, arrived: Moment) -> Self {
        Self {
            work: Mutex::default(),
            polling: Polling::default(),
            keeper: keeper.clone(),
            key: request.key.clone(),
            arrived,
            ttl: request.ttl(),
            lapses: AtomicU32::new(0),
            runtime: Handle::try_current().ok(),
        }
    }

    /// Runs the future of `begin`, and starts another one after each lapse.
    pub(crate) async fn run(self, begin: impl Fn() -> Acquiring) -> Result<Option<LockGuard>> {
        let driving = Driving(Arc::new(self));
        poll_fn(|context| driving.0.poll(context, &begin)).await
    }

    fn poll(
        self: &Arc<Self>,
        context: &mut Context<'_>,
        begin: impl Fn() -> Acquiring,
    ) -> Poll<Result<Option<LockGuard>>> {
        self.polling.polled(context.waker());
        let waker = Waker::from(Arc::clone(self));
        let mut work = self.work.lock();
        let is_new = work.is_none();
        let under_way = work.get_or_insert_with(begin);
        let outcome = under_way.as_mut().poll(&mut Context::from_waker(&waker));
        let done = outcome.is_ready().then(|| work.take());
        drop(work);
        drop(done);
        if is_new && outcome.is_pending() {
            let watchdog = &self.keeper.inner.watchdog;
            watchdog.probe(self, self.runtime.as_ref());
        }
        outcome
    }

    fn give_up(&self) {
        let work = self.work.lock().take();
        drop(work);
    }
}

/// Drops the work with its future. The waker inside the work keeps the `WatchedAcquisition` itself alive.
struct Driving(Arc<WatchedAcquisition>);

impl Drop for Driving {
    fn drop(&mut self) {
        self.0.give_up();
    }
}

impl Wake for WatchedAcquisition {
    fn wake(self: Arc<Self>) {
        if let Some(seen) = self.polling.is_to_be_woken() {
            let watchdog = &self.keeper.inner.watchdog;
            watchdog.watch(&self, seen, self.runtime.as_ref());
        }
        self.polling.wake();
    }
}

impl Watched for WatchedAcquisition {
    fn progress(&self, seen: u64) -> Progress {
        self.polling.progress(seen)
    }

    fn limit(&self) -> Duration {
        watchdog::limit_alone(self.ttl, self.lapses.load(Ordering::Relaxed))
    }

    fn lapse(&self, seen: u64) {
        if matches!(self.polling.progress(seen), Progress::None) {
            self.lapses.fetch_add(1, Ordering::Relaxed);
            self.give_up();
            // The waiter may have been polled meanwhile; no other event would wake its task again.
            self.polling.wake();
        }
    }

    fn is_under_way(&self) -> bool {
        // A locked mutex means that the work is being polled.
        self.work.try_lock().is_none_or(|work| work.is_some())
    }

    fn probe(self: Arc<Self>) {
        self.keeper.note_wait(&self.key, self.arrived);
        self.wake();
    }
}
