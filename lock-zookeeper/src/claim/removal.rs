//! Deletes the node of a claim, whether its name is known or not.

use std::sync::Arc;

use futures_util::future::join_all;
use lock_core::Result;
use lock_core::backend::Deadlines;

use crate::claim::registry::{ClaimRecord, ClaimRegistry, GIVING_BACK};
use crate::error::{DriverResult, is_expired, is_loss_of_connection, translate};
use crate::session::requests::Session;

/// Deletes the nodes of abandoned claims in `session`, and returns the records of these claims.
///
/// Why: a live session keeps its nodes. The guard of an expired hold may never be dropped, and the
/// keeper may have given up a release.
pub(crate) async fn remove_abandoned(
    registry: &ClaimRegistry,
    session: &Arc<Session>,
    deadlines: &Deadlines,
) -> Vec<ClaimRecord> {
    let abandoned = registry.abandoned_in(session);
    let removing = abandoned.iter().map(|(claim, record)| async move {
        remove(record).await.ok()?;
        registry.leave(*claim)
    });
    let removed = deadlines.timeout(GIVING_BACK, join_all(removing)).await;
    removed.unwrap_or_default().into_iter().flatten().collect()
}

/// Deletes the node of a claim. Returns true if the node was there.
pub(crate) async fn remove(record: &ClaimRecord) -> Result<bool> {
    loop {
        let removed = match &record.node {
            Some(node) => record.session.remove(&node.path).await,
            None => remove_unknown(record).await,
        };
        match removed {
            Ok(was_there) => return Ok(was_there),
            // The nodes are gone with the session. A server may report the end before the client
            // has noted it.
            Err(error) if record.session.has_ended() || is_expired(&error) => return Ok(false),
            Err(error) if is_loss_of_connection(&error) => {
                record.session.link.request_sizes.check(&record.lock)?;
                record.session.link.settled().await;
                // Yield, so that the timeout of the caller is polled.
                tokio::task::yield_now().await;
            }
            Err(error) => return Err(translate(error)),
        }
    }
}

/// Deletes the node of a claim whose creation was not answered. Returns true if the node was there.
async fn remove_unknown(record: &ClaimRecord) -> DriverResult<bool> {
    let (session, lock) = (&record.session, &record.lock);
    let children = match session.look(lock).await {
        Err(zookeeper_client::Error::NoNode) => return Ok(false),
        children => children?,
    };
    match children
        .iter()
        .find(|name| name.starts_with(&*record.prefix))
    {
        Some(name) => session.remove(&format!("{lock}/{name}")).await,
        None => Ok(false),
    }
}
