//! One waiter of a client for a key.

use std::sync::Arc;
use std::time::Duration;

use futures_util::future::OptionFuture;
use tokio::sync::oneshot;
use tokio::time::{Instant, sleep_until};

use crate::claim::key::ClaimKey;
use crate::error::runtime_gone;
use crate::wait::shared_wait::{SharedWait, TurnNews};

/// The time before the end of a wait at which the client asks the servers once more. Without this
/// last check, servers that are slow at the end of the wait would be reported as unreachable.
const BEFORE_THE_END: Duration = Duration::from_millis(240);

/// The wait of a claim in the queue for its turn; dropping it ends the wait.
pub(crate) struct Ticket {
    pub(crate) wait: Arc<SharedWait>,
    pub(crate) claim_key: Arc<ClaimKey>,
    /// The create revision of the claim.
    pub(crate) created: i64,
    pub(super) told: oneshot::Receiver<TurnNews>,
    /// When the wait ends; `None` once the servers were asked before that end.
    pub(crate) ends: Option<Instant>,
}

impl Ticket {
    /// Waits for news about the claim; `None` if its lease has ended.
    ///
    /// # Cancel safety
    ///
    /// Cancel safe.
    pub(crate) async fn next_news(&mut self) -> Option<TurnNews> {
        loop {
            let check_at = self.ends.and_then(|ends| ends.checked_sub(BEFORE_THE_END));
            // All branches are cancel safe: unreceived messages stay for the next iteration.
            tokio::select! {
                // Without an answer, the task was dropped with its runtime.
                told = &mut self.told => {
                    return Some(told.unwrap_or_else(|_| TurnNews::Failed(runtime_gone())));
                }
                () = self.claim_key.lease.ended() => return None,
                Some(()) = OptionFuture::from(check_at.map(sleep_until)) => {
                    self.ends = None;
                    self.wait.check(BEFORE_THE_END);
                }
            }
        }
    }
}

impl Drop for Ticket {
    fn drop(&mut self) {
        self.wait.leave(self.created);
    }
}
