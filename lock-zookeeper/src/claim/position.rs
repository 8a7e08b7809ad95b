//! The position of a claim in its queue.

use std::sync::Arc;
use std::time::Duration;

use lock_core::backend::Moment;

use crate::queue::QueueListing;
use crate::session::requests::Session;

/// The position of a claim in its queue, from one look at the queue.
pub(crate) struct QueuePosition {
    /// When the last request was sent that confirmed the session. A hold counts from then.
    pub(crate) confirmed: Moment,
    pub(crate) queue: Arc<QueueListing>,
    /// The index of the claim in the queue.
    pub(crate) index: usize,
    pub(crate) session: Arc<Session>,
}

impl QueuePosition {
    /// Returns from when a hold with this reserve counts.
    pub(crate) fn counts_from(&self, reserve: Duration) -> Moment {
        self.session.link.counts_from(self.confirmed, reserve)
    }
}
