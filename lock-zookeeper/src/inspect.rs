//! The holders of a key, from the nodes of its claims.

use lock_core::backend::holders;
use lock_core::{HolderInfo, KeyInfo, LockKey, Mode, Result};
use zookeeper_client::{Error as ZooKeeperError, MultiReadResult};

use crate::claim::slot::read_data;
use crate::client::{Client, REPLY_LIMIT};
use crate::error::{DriverResult, translate};
use crate::queue::QueueListing;
use crate::session::requests::Session;

impl Client {
    /// Lists the queue of `key` through the leader, and reads the nodes of its holders.
    pub(crate) async fn inspect_key(&self, key: &LockKey) -> Result<KeyInfo> {
        let (session, lock) = (self.any_session().await?, self.paths.lock(key));
        let reading = self
            .deadlines
            .timeout(REPLY_LIMIT, inspect(&session, &lock));
        match reading.await {
            Some(info) => info.map_err(translate),
            None => Err(self.request_sizes.no_answer(REPLY_LIMIT)),
        }
    }
}

async fn inspect(session: &Session, lock: &str) -> DriverResult<KeyInfo> {
    let children = match session.look(lock).await {
        Err(ZooKeeperError::NoNode) => Vec::new(),
        children => children?,
    };
    let queue = QueueListing::new(children);
    let holding = holders(queue.modes().iter().copied());
    let nodes = session.read_claims(lock, &queue, 0..holding).await?;
    let found = (0..holding)
        .zip(nodes)
        .filter_map(|(index, node)| holder(queue.modes()[index], queue.may_be_own(index), node));
    Ok(KeyInfo::new(found.collect()).with_waiters(queue.len() - holding))
}

/// Reads a holder's node; `None` if the holder has just gone.
fn holder(mode: Mode, may_be_own: bool, node: MultiReadResult) -> Option<HolderInfo> {
    let (data, stat) = match node {
        MultiReadResult::Data { data, stat } => (data, stat),
        MultiReadResult::Error {
            err: ZooKeeperError::NoNode,
        } => return None,
        // This user may not read the node.
        _ => return Some(HolderInfo::new().with_mode(mode)),
    };
    let text = String::from_utf8_lossy(&data);
    let (_, metadata) = read_data(&text);
    let holder = HolderInfo::new().with_metadata(metadata);
    // Curator writes the address of its machine. Claims of earlier versions are empty.
    let is_own = may_be_own && (holder.host.is_some() || data.is_empty());
    if !is_own {
        return Some(HolderInfo::foreign());
    }
    let grant = u64::try_from(stat.czxid).unwrap_or(u64::MAX);
    Some(holder.with_mode(mode).with_grant(grant))
}
