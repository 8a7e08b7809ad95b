//! One waiter of a client for a key.

use std::sync::Arc;
use std::time::Duration;

use lock_core::backend::Moment;
use tokio::sync::oneshot;

use crate::error::runtime_gone;
use crate::wait::shared_wait::{SharedWait, Told};

/// A waiter; dropping it ends the wait.
pub(crate) struct Ticket {
    wait: Arc<SharedWait>,
    created: i64,
    told: oneshot::Receiver<Told>,
}

impl Ticket {
    /// Makes the waiter of the claim with this create revision.
    pub(crate) fn new(wait: Arc<SharedWait>, created: i64, told: oneshot::Receiver<Told>) -> Self {
        Self {
            wait,
            created,
            told,
        }
    }

    /// Waits for news of the claim.
    ///
    /// # Cancel safety
    ///
    /// Cancel safe.
    pub(crate) async fn told(&mut self) -> Told {
        let told = (&mut self.told).await;
        // Without an answer, the task was dropped with its runtime.
        told.unwrap_or_else(|_| Told::Failed(runtime_gone()))
    }

    /// Requests a check by the servers, unless the last one was within `recently`.
    pub(crate) fn check(&self, recently: Duration) {
        self.wait.check(recently);
    }

    /// Returns when the last request was sent whose answer showed that the first waiter still has
    /// to wait.
    pub(crate) fn checked(&self) -> Option<Moment> {
        self.wait.checked()
    }
}

impl Drop for Ticket {
    fn drop(&mut self) {
        self.wait.leave(self.created);
    }
}
