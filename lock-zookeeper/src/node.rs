//! The node of a claim, and what is answered about it.

use std::sync::Arc;

use zookeeper_client::Error as ZooKeeperError;

use crate::line::Line;

pub(crate) type Answer<T> = Result<T, ZooKeeperError>;

/// A claim's node.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Node {
    pub(crate) path: String,
    pub(crate) czxid: i64,
}

impl Node {
    /// Its name in the line.
    pub(crate) fn name(&self) -> &str {
        self.path.rsplit('/').next().unwrap_or_default()
    }
}

impl Joined {
    /// Of a claim that was not sent.
    pub(crate) fn refused(error: ZooKeeperError) -> Self {
        Self {
            node: Err(error.clone()),
            line: Err(error),
        }
    }
}

/// What came of a claim: its node, and who stands in line with it.
pub(crate) struct Joined {
    pub(crate) node: Answer<Node>,
    pub(crate) line: Answer<Arc<Line>>,
}
