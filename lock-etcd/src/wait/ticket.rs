//! The place of one waiter among those of its client for the same key.

use std::sync::Arc;
use std::time::Duration;

use lock_core::Moment;
use tokio::sync::oneshot;

use crate::error::runtime_gone;
use crate::wait::shared_wait::{SharedWait, Told};

/// A place among the waiters; dropping it gives it up.
pub(crate) struct Ticket {
    wait: Arc<SharedWait>,
    created: i64,
    told: oneshot::Receiver<Told>,
}

impl Ticket {
    /// The place of the claim that was `created` then, which is `told` of its turn.
    pub(crate) fn new(wait: Arc<SharedWait>, created: i64, told: oneshot::Receiver<Told>) -> Self {
        Self {
            wait,
            created,
            told,
        }
    }

    /// Waits until there is something to be told.
    ///
    /// # Cancel safety
    ///
    /// Cancel safe.
    pub(crate) async fn told(&mut self) -> Told {
        let told = (&mut self.told).await;
        // The task ends without a word together with its runtime only.
        told.unwrap_or_else(|_| Told::Failed(runtime_gone()))
    }

    /// Has the servers asked how things stand, unless they were within the last `recently`.
    pub(crate) fn check(&self, recently: Duration) {
        self.wait.check(recently);
    }

    /// When the servers were last asked who say that the first waiter still waits.
    pub(crate) fn checked(&self) -> Option<Moment> {
        self.wait.checked()
    }
}

impl Drop for Ticket {
    fn drop(&mut self) {
        self.wait.leave(self.created);
    }
}
