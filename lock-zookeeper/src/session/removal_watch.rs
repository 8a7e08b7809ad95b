//! Reports deleted nodes to their holds: one task for all watches of a session.

use std::sync::Weak;

use futures_util::StreamExt;
use futures_util::stream::FuturesUnordered;
use lock_core::LossReason;
use tokio::sync::mpsc::UnboundedReceiver;
use zookeeper_client::EventType;

use crate::claim::registry::ClaimRegistry;
use crate::session::node::WatchedNode;

impl WatchedNode {
    /// Waits for a change of the node, and reports a deletion.
    async fn tell(self, registry: &Weak<ClaimRegistry>) {
        match self.watcher.changed().await.map(|event| event.event_type) {
            Some(EventType::NodeDeleted) => self.loss.lost(LossReason::Removed),
            // The task of the session reports its end.
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

/// Reports deletions for all watches that `begin`, until the session is dropped.
pub(crate) async fn tell_of_removals(
    mut begin: UnboundedReceiver<WatchedNode>,
    registry: Weak<ClaimRegistry>,
) {
    let mut telling = FuturesUnordered::new();
    loop {
        // Both branches are cancel safe.
        tokio::select! {
            watched = begin.recv() => match watched {
                Some(watched) => telling.push(watched.tell(&registry)),
                None => return,
            },
            Some(()) = telling.next() => {}
        }
    }
}
