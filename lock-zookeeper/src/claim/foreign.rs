//! Checks of the nodes of other clients: a persistent node is no claim.

use std::sync::Arc;

use lock_core::Result;

use crate::claim::node::ClaimNode;
use crate::error::no_claim;
use crate::queue::QueueListing;
use crate::session::requests::Session;

impl ClaimNode<'_> {
    /// Checks that each node of an unknown client, and the node `in_the_way`, is ephemeral.
    ///
    /// # Errors
    ///
    /// [`Backend`](lock_core::ErrorKind::Backend) if a node is persistent: no client deletes it as
    /// its claim.
    pub(crate) async fn check(
        &mut self,
        session: &Arc<Session>,
        queue: &QueueListing,
        in_the_way: Option<usize>,
    ) -> Result<()> {
        let in_the_way = in_the_way.map(|index| queue.name(index));
        let doubtful = queue.unknown_names().chain(in_the_way);
        for name in doubtful {
            let path = format!("{}/{name}", self.lock);
            if self.client.claims.has(&path) {
                continue;
            }
            let answer = session.is_ephemeral(&path).await;
            match self.retry_or_fail(session, answer)? {
                Some(true) => _ = self.client.claims.add(path),
                Some(false) => return Err(no_claim(&path)),
                None => return Ok(()),
            }
        }
        Ok(())
    }
}
