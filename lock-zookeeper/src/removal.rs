//! Removes the node of a claim, whatever is known of it.

use lock_core::Result;

use crate::claim_registry::ClaimRecord;
use crate::error::{is_expired, is_loss_of_connection, translate};
use crate::session::node::DriverResult;

/// Removes what is at `place`; whether anything was there.
pub(crate) async fn remove(place: &ClaimRecord) -> Result<bool> {
    loop {
        let removed = match &place.node {
            Some(node) => place.session.remove(&node.path).await,
            None => remove_unknown(place).await,
        };
        match removed {
            Ok(was_there) => return Ok(was_there),
            // Whatever was in it has gone with it. A server may say so before the session is known to have ended.
            Err(error) if place.session.has_ended() || is_expired(&error) => return Ok(false),
            Err(error) if is_loss_of_connection(&error) => {
                place.session.request_sizes().check(&place.lock)?;
                place.session.settled().await;
                // Whoever limits this has to get a turn, whatever the answers are.
                tokio::task::yield_now().await;
            }
            Err(error) => return Err(translate(error)),
        }
    }
}

/// Removes a node whose name nobody was told, if there is one.
async fn remove_unknown(place: &ClaimRecord) -> DriverResult<bool> {
    let ClaimRecord {
        session,
        lock,
        prefix,
        ..
    } = place;
    let children = match session.look(lock).await {
        Err(zookeeper_client::Error::NoNode) => return Ok(false),
        children => children?,
    };
    match children.iter().find(|name| name.starts_with(&**prefix)) {
        Some(name) => session.remove(&format!("{lock}/{name}")).await,
        None => Ok(false),
    }
}
