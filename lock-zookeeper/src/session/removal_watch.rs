//! Telling holds that somebody has removed their nodes: one task for all that are watched in a session.

use std::sync::Weak;

use futures_util::StreamExt;
use futures_util::stream::FuturesUnordered;
use lock_core::LossReason;
use tokio::sync::mpsc::UnboundedReceiver;
use zookeeper_client::EventType;

use crate::claim_registry::ClaimRegistry;
use crate::session::node::WatchedNode;

impl WatchedNode {
    /// Waits until something happens to the node.
    async fn tell(self, registry: &Weak<ClaimRegistry>) {
        match self.watcher.changed().await.map(|event| event.event_type) {
            Some(EventType::NodeDeleted) => self.loss.lost(LossReason::Removed),
            // Whoever looks after the session tells of its end.
            Some(EventType::Session) => {}
            Some(
                EventType::NodeCreated
                | EventType::NodeDataChanged
                | EventType::NodeChildrenChanged,
            )
            | None => {
                if let Some(registry) = registry.upgrade() {
                    registry.update(self.owner, |record| record.is_watched = false);
                }
            }
        }
    }
}

/// Tells all whose watches `begin`, as long as their session is there.
pub(crate) async fn tell_of_removals(
    mut begin: UnboundedReceiver<WatchedNode>,
    registry: Weak<ClaimRegistry>,
) {
    let mut telling = FuturesUnordered::new();
    loop {
        // Both are cancel safe.
        tokio::select! {
            watched = begin.recv() => match watched {
                Some(watched) => telling.push(watched.tell(&registry)),
                None => return,
            },
            Some(()) = telling.next() => {}
        }
    }
}
