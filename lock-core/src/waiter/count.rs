//! The number of requests that wait in one client.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use crate::{LockRequest, Wait};

/// The number of requests that wait in one client.
#[derive(Clone, Debug, Default)]
pub(crate) struct Waiters(Arc<AtomicUsize>);

/// One waiting request, until this value is dropped.
#[derive(Debug)]
pub(crate) struct Waiter(Waiters);

impl Waiters {
    /// Counts `request` until the value is dropped; `None` for one that does not wait.
    pub(crate) fn enter(&self, request: &LockRequest) -> Option<Waiter> {
        (request.wait() != Wait::No).then(|| {
            self.0.fetch_add(1, Ordering::Relaxed);
            Waiter(self.clone())
        })
    }

    pub(crate) fn count(&self) -> usize {
        self.0.load(Ordering::Relaxed)
    }
}

impl Drop for Waiter {
    fn drop(&mut self) {
        self.0.0.fetch_sub(1, Ordering::Relaxed);
    }
}
