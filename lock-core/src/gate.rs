//! The gate of a client: open until it is shut down, and then a place to wait for what is under way.

use std::future::Future;
use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::task::Poll;

use tokio::sync::Notify;

use crate::{Error, ErrorKind, Result};

/// Counts what is under way for one client, and cuts acquisitions off when it is closed.
#[derive(Debug, Default)]
pub(crate) struct Gate {
    closed: AtomicBool,
    under_way: AtomicUsize,
    changed: Notify,
}

/// Something under way; dropping it says that it has ended.
#[derive(Debug)]
pub(crate) struct UnderWay(Arc<Gate>);

impl Gate {
    pub(crate) fn enter(self: &Arc<Self>) -> UnderWay {
        self.under_way.fetch_add(1, Ordering::SeqCst);
        UnderWay(Arc::clone(self))
    }

    pub(crate) fn is_closed(&self) -> bool {
        self.closed.load(Ordering::SeqCst)
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
}

fn shut_down() -> Error {
    Error::new(
        ErrorKind::Closed,
        "this client was shut down: connect a new one",
    )
}

impl Drop for UnderWay {
    fn drop(&mut self) {
        let before = self.0.under_way.fetch_sub(1, Ordering::SeqCst);
        if before == 1 && self.0.is_closed() {
            self.0.changed.notify_waiters();
        }
    }
}
