//! The gate of a client: open until the shutdown, which then waits for pending work.

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

/// Counts the pending work of one client, and ends acquisitions when it is closed.
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
    /// When the ttl has ended the last of these holds.
    until: Option<Moment>,
}

/// Pending work, until this value is dropped.
#[derive(Debug)]
pub(crate) struct WorkGuard(Arc<ShutdownGate>);

/// A pending release. Dropping it before the store's confirmation, for example together with its
/// runtime, records an unknown outcome.
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

    /// Starts a release of a hold that the store itself ends at `expires` at the latest.
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

    /// Returns an error once the gate is closed.
    pub(crate) fn check(&self) -> Result<()> {
        if self.is_closed() {
            Err(shut_down())
        } else {
            Ok(())
        }
    }

    /// Runs `work` while the gate is open. Closing the gate drops the work, and turns even a result
    /// that it just returned into an error.
    pub(crate) async fn pass<T>(
        self: &Arc<Self>,
        work: impl Future<Output = Result<T>>,
    ) -> Result<T> {
        // Rejected before it is counted, so that a shutdown does not wait for it.
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
                // Any work that ends during the shutdown also wakes this waiter; the gate stays
                // closed.
                closing.as_mut().poll(context).map(|()| None)
            })
            .await
        };
        match outcome {
            Some(outcome) if !self.is_closed() => outcome,
            Some(_) | None => Err(shut_down()),
        }
    }

    /// Rejects new work and drops the pending work.
    pub(crate) fn close(&self) {
        self.closed.store(true, Ordering::SeqCst);
        self.changed.notify_waiters();
    }

    /// Waits until no work is pending. Call it on a closed gate.
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

    /// Returns the number of unconfirmed releases whose holds may have lasted beyond `since`.
    pub(crate) fn how_many_unconfirmed(&self, since: Moment) -> usize {
        let unconfirmed = self.unconfirmed.lock();
        match unconfirmed.until {
            Some(until) if until > since => unconfirmed.releases,
            Some(_) | None => 0,
        }
    }
}

impl ReleaseGuard {
    /// Records that the store has answered.
    pub(crate) fn confirmed(mut self) {
        self.confirmed = true;
    }
}

impl Drop for ReleaseGuard {
    fn drop(&mut self) {
        if self.confirmed {
            return;
        }
        // Recorded before the release counts as ended, because a shutdown reads it right after
        // that.
        let mut unconfirmed = self.under_way.0.unconfirmed.lock();
        if unconfirmed.until.is_some_and(|until| until < self.begun) {
            // The ttl has ended the holds of all earlier releases.
            unconfirmed.releases = 0;
        }
        unconfirmed.releases += 1;
        unconfirmed.until = unconfirmed.until.max(Some(self.expires));
    }
}

pub(crate) fn shut_down() -> Error {
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
