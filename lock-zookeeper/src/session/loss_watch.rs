//! The report of a deleted node to its hold.

use std::sync::Weak;

use lock_core::LossReason;
use lock_core::backend::{ClaimId, LossSender};
use zookeeper_client::EventType;

use crate::claim::registry::ClaimRegistry;
use crate::connection::open::Watcher;

/// A hold with a watched node.
pub(crate) struct WatchedNode {
    pub(crate) claim: ClaimId,
    pub(crate) loss: LossSender,
    pub(crate) watcher: Watcher,
}

impl WatchedNode {
    /// Waits for a change of the node, and reports a deletion.
    pub(crate) async fn report_removal(self, registry: Weak<ClaimRegistry>) {
        match self.watcher.changed().await.map(|event| event.event_type) {
            Some(EventType::NodeDeleted) => self.loss.lost(LossReason::Removed),
            // The task that looks after the session reports its end.
            Some(EventType::Session) => {}
            Some(
                EventType::NodeCreated
                | EventType::NodeDataChanged
                | EventType::NodeChildrenChanged,
            )
            | None => {
                if let Some(registry) = registry.upgrade() {
                    registry.update(self.claim, |record| record.is_watched = false);
                }
            }
        }
    }
}
