//! The node of a claim, and the answers about it.

use std::sync::Arc;

use zookeeper_client::{CreateSequence, Error as ZooKeeperError, Stat};

use crate::error::DriverResult;
use crate::queue::QueueListing;

/// A claim's node.
pub(crate) struct Node {
    pub(crate) path: String,
    pub(crate) czxid: i64,
}

impl Node {
    /// Returns the name of the node in the queue.
    pub(crate) fn name(&self) -> &str {
        self.path.rsplit('/').next().unwrap_or_default()
    }
}

/// The answers to a new claim: its node, and its queue.
pub(crate) struct Joined {
    pub(crate) node: DriverResult<Node>,
    pub(crate) queue: DriverResult<Arc<QueueListing>>,
}

impl Joined {
    /// Makes the answers to a claim that was not sent.
    pub(crate) fn refused(error: ZooKeeperError) -> Self {
        Self {
            node: Err(error.clone()),
            queue: Err(error),
        }
    }
}

/// Returns the created node, whose name begins with `start`.
pub(super) fn made(
    start: &str,
    created: DriverResult<(Stat, CreateSequence)>,
) -> DriverResult<Node> {
    created.map(|(stat, sequence)| Node {
        path: format!("{start}{sequence}"),
        czxid: stat.czxid,
    })
}

/// Returns true if the node was there.
pub(super) fn was_there(removed: DriverResult<()>) -> DriverResult<bool> {
    match removed {
        Ok(()) => Ok(true),
        Err(ZooKeeperError::NoNode) => Ok(false),
        Err(error) => Err(error),
    }
}
