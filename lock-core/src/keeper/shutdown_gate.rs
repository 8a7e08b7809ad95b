//! The gate of a client: open until it is shut down, and then a place to wait for what is under
//! way.

use std::future::Future;
use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::task::Poll;

use tokio::sync::Notify;

use crate::backend::Moment;
use crate::keeper::releases::OneRelease;
use crate::mutex::Mutex;
use crate::{Error, ErrorKind, Result};

/// Counts what is under way for one client, and cuts acquisitions off when it is closed.
#[derive(Debug, Default)]
pub(crate) struct ShutdownGate {
    closed: AtomicBool,
    under_way: AtomicUsize,
    changed: Notify,
    unconfirmed: Mutex<Unconfirmed>,
}

/// The releases that were given up without the store's confirmation.
#[derive(Debug, Default)]
struct Unconfirmed {
    releases: usize,
    /// When the ttl has ended the last of them.
    until: Option<Moment>,
}

/// Something under way; dropping it says that it has ended.
#[derive(Debug)]
pub(crate) struct WorkGuard(Arc<ShutdownGate>);

/// A release under way. Dropping it before the store has confirmed it, perhaps together with its
/// runtime, says that its outcome is unknown.
#[derive(Debug)]
pub(crate) struct ReleaseGuard {
    under_way: WorkGuard,
    _of_key: OneRelease,
    begun: Moment,
    expires: Moment,
    confirmed: bool,
}

impl ShutdownGate {
    pub(crate) fn enter(self: &Arc<Self>) -> WorkGuard {
        self.under_way.fetch_add(1, Ordering::SeqCst);
        WorkGuard(Arc::clone(self))
    }

    pub(crate) fn is_closed(&self) -> bool {
        self.closed.load(Ordering::SeqCst)
    }

    /// Begins a release now of something that the store ends by itself at `expires`, at the latest.
    pub(crate) fn release(
        self: &Arc<Self>,
        of_key: OneRelease,
        begun: Moment,
        expires: Moment,
    ) -> ReleaseGuard {
        ReleaseGuard {
            under_way: self.enter(),
            _of_key: of_key,
            begun,
            expires,
            confirmed: false,
        }
    }

    /// An error once the gate is closed.
    pub(crate) fn check(&self) -> Result<()> {
        if self.is_closed() {
            Err(shut_down())
        } else {
            Ok(())
        }
    }

    /// Runs `work` as long as the gate is open. Once it is closed the work is dropped where it
    /// stands, and even an answer that it had found is an error.
    pub(crate) async fn pass<T>(
        self: &Arc<Self>,
        work: impl Future<Output = Result<T>>,
    ) -> Result<T> {
        // So that work that only meets the closed gate keeps no shutdown waiting.
        self.check()?;
        let _under_way = self.enter();
        let outcome = {
            let mut work = pin!(work);
            let mut closing = pin!(self.changed.notified());
            std::future::poll_fn(|context| {
                if self.is_closed() {
                    return Poll::Ready(None);
                }
                if let Poll::Ready(outcome) = work.as_mut().poll(context) {
                    return Poll::Ready(Some(outcome));
                }
                // Woken by whatever ends while the gate closes; it stays closed.
                closing.as_mut().poll(context).map(|()| None)
            })
            .await
        };
        match outcome {
            Some(outcome) if !self.is_closed() => outcome,
            Some(_) | None => Err(shut_down()),
        }
    }

    /// Lets nothing new pass, and drops what is passing.
    pub(crate) fn close(&self) {
        self.closed.store(true, Ordering::SeqCst);
        self.changed.notify_waiters();
    }

    /// Waits until nothing is under way. Meant for a closed gate.
    pub(crate) async fn drained(&self) {
        loop {
            let changed = self.changed.notified();
            if self.how_many() == 0 {
                return;
            }
            changed.await;
        }
    }

    pub(crate) fn how_many(&self) -> usize {
        self.under_way.load(Ordering::SeqCst)
    }

    /// Returns how many releases were given up without being confirmed, as far as they matter
    /// `since` then.
    pub(crate) fn how_many_unconfirmed(&self, since: Moment) -> usize {
        let unconfirmed = self.unconfirmed.lock();
        match unconfirmed.until {
            Some(until) if until > since => unconfirmed.releases,
            Some(_) | None => 0,
        }
    }
}

impl ReleaseGuard {
    /// Says that the store has answered.
    pub(crate) fn confirmed(mut self) {
        self.confirmed = true;
    }
}

impl Drop for ReleaseGuard {
    fn drop(&mut self) {
        if self.confirmed {
            return;
        }
        // Before the release counts as ended, which is when a shutdown may ask.
        let mut unconfirmed = self.under_way.0.unconfirmed.lock();
        if unconfirmed.until.is_some_and(|until| until < self.begun) {
            // The ttl has ended those of before.
            unconfirmed.releases = 0;
        }
        unconfirmed.releases += 1;
        unconfirmed.until = unconfirmed.until.max(Some(self.expires));
    }
}

fn shut_down() -> Error {
    Error::new(
        ErrorKind::Closed,
        "this client was shut down: connect a new one",
    )
}

impl Drop for WorkGuard {
    fn drop(&mut self) {
        let before = self.0.under_way.fetch_sub(1, Ordering::SeqCst);
        if before == 1 && self.0.is_closed() {
            self.0.changed.notify_waiters();
        }
    }
}
