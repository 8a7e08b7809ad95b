//! Removes the node of a claim, whatever is known of it.

use std::sync::Arc;

use futures_util::future::join_all;
use lock_core::{Deadlines, Result};

use crate::claim_registry::{ClaimRecord, ClaimRegistry, GIVING_BACK};
use crate::error::{DriverResult, is_expired, is_loss_of_connection, translate};
use crate::session::requests::Session;

/// Removes what is left in `session`, and returns what has gone. It would stay as long as the session does: a hold that
/// has expired while the session lived on has a guard that may never be dropped, and a release may have been given up.
pub(crate) async fn remove_abandoned(
    registry: &ClaimRegistry,
    session: &Arc<Session>,
    deadlines: &Deadlines,
) -> Vec<ClaimRecord> {
    let abandoned = registry.abandoned_in(session);
    let removing = abandoned.iter().map(|(owner, record)| async move {
        remove(record).await.ok()?;
        registry.leave(*owner)
    });
    let removed = deadlines.timeout(GIVING_BACK, join_all(removing)).await;
    removed.unwrap_or_default().into_iter().flatten().collect()
}

/// Removes what is at `record`; whether anything was there.
pub(crate) async fn remove(record: &ClaimRecord) -> Result<bool> {
    loop {
        let removed = match &record.node {
            Some(node) => record.session.remove(&node.path).await,
            None => remove_unknown(record).await,
        };
        match removed {
            Ok(was_there) => return Ok(was_there),
            // Whatever was in it has gone with it. A server may say so before the session is known to have ended.
            Err(error) if record.session.has_ended() || is_expired(&error) => return Ok(false),
            Err(error) if is_loss_of_connection(&error) => {
                record.session.request_sizes().check(&record.lock)?;
                record.session.settled().await;
                // Whoever limits this has to get a turn, whatever the answers are.
                tokio::task::yield_now().await;
            }
            Err(error) => return Err(translate(error)),
        }
    }
}

/// Removes a node whose name nobody was told, if there is one.
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
