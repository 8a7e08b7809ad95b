//! One waiter of a client for a key.

use std::sync::Arc;

use tokio::sync::oneshot;

use crate::error::runtime_gone;
use crate::wait::shared_wait::{SharedWait, TurnNews};

/// A waiter; dropping it ends the wait.
pub(crate) struct Ticket {
    pub(crate) wait: Arc<SharedWait>,
    /// The create revision of the waiter's claim.
    pub(crate) created: i64,
    pub(super) told: oneshot::Receiver<TurnNews>,
}

impl Ticket {
    /// Waits for news of the claim.
    ///
    /// # Cancel safety
    ///
    /// Cancel safe.
    pub(crate) async fn told(&mut self) -> TurnNews {
        let told = (&mut self.told).await;
        // Without an answer, the task was dropped with its runtime.
        told.unwrap_or_else(|_| TurnNews::Failed(runtime_gone()))
    }
}

impl Drop for Ticket {
    fn drop(&mut self) {
        self.wait.leave(self.created);
    }
}
