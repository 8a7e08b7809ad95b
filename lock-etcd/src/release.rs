//! Releases claims.

use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use lock_core::Result;
use lock_core::backend::{HoldId, Released};
use tokio::runtime::Handle;

use crate::claim_key::ClaimKey;
use crate::client::Client;
use crate::error::Failure;

/// The time that a clean-up waits for the end of its take. The take never ends if its runtime is
/// not driven any more.
const SETTLING_LIMIT: Duration = Duration::from_millis(2500);

/// The time that a release waits on each of its two connections.
const RELEASE_LIMIT: Duration = Duration::from_secs(1);

/// The time that a release waits on the connection of its take before it asks the other one, too:
/// the runtime of that connection may not be driven.
const HEAD_START: Duration = Duration::from_millis(50);

impl Client {
    /// Releases a hold, or a claim that waits in a queue.
    pub(crate) async fn release_claim(&self, hold: &HoldId) -> Result<Released> {
        let Some(claim_key) = self.begin_release(hold) else {
            return Ok(Released::AlreadyLost);
        };
        claim_key.keep_watch(None);
        if !self.is_settled(&claim_key).await {
            // The take may arrive after the delete.
            claim_key.mark_in_doubt();
        }
        match self.delete(hold, &claim_key).await {
            Ok(deleted) => {
                if claim_key.is_in_doubt() {
                    claim_key.lease.delete_until_revoked(&claim_key.key);
                }
                if deleted == 0 {
                    claim_key.forbid_reuse();
                }
                self.leave(hold.claim());
                Ok(if deleted > 0 {
                    Released::Released
                } else {
                    Released::AlreadyLost
                })
            }
            Err(failure) => {
                // The key goes with its lease, which ends with its other claims and deletes the key
                // until then.
                claim_key.lease.delete_until_revoked(&claim_key.key);
                claim_key.mark_in_doubt();
                claim_key.lease.leave(hold.claim());
                self.forget_soon(&claim_key, hold.store_ttl());
                Err(failure.into())
            }
        }
    }

    /// Waits for the end of a take of this claim. Returns false if it did not end in time.
    async fn is_settled(&self, claim_key: &ClaimKey) -> bool {
        let Ok(background) = self.background() else {
            return false;
        };
        let settled = claim_key.settled();
        let settled = background.connection.within(SETTLING_LIMIT, settled);
        settled.await.is_some()
    }

    async fn delete(
        &self,
        hold: &HoldId,
        claim_key: &Arc<ClaimKey>,
    ) -> std::result::Result<i64, Failure> {
        let deleting = |client: Arc<etcd_client::Client>| {
            let claim_key = Arc::clone(claim_key);
            async move {
                let deleted = client.kv_client().delete(&*claim_key.key, None).await;
                deleted.map(|deleted| deleted.deleted())
            }
        };
        let Some(command) = self.command_of(hold) else {
            return self.delete_elsewhere(claim_key, deleting).await;
        };
        let in_doubt = || claim_key.forbid_reuse();
        let mut asking = pin!(command.ask_noting(RELEASE_LIMIT * 2, deleting, in_doubt));
        let is_at_home = Handle::try_current().is_ok_and(|here| here.id() == hold.runtime());
        let patience = match claim_key.is_in_doubt() || is_at_home {
            true => RELEASE_LIMIT,
            // No request of the claim is on its way on that runtime, which may not be driven.
            false => (command.last_reply().latency * 4).clamp(HEAD_START, RELEASE_LIMIT),
        };
        match command.within(patience, asking.as_mut()).await {
            Some(Err(failure)) if failure.is_retryable() => {
                return self.delete_elsewhere(claim_key, deleting).await;
            }
            Some(outcome) => return outcome,
            None => claim_key.forbid_reuse(),
        }
        // The first connection may only be slow. Its answer then says better what was there.
        let mut elsewhere = pin!(self.delete_elsewhere(claim_key, deleting));
        tokio::select! {
            outcome = asking.as_mut() => match outcome {
                // A delete on the other connection may have come first, and is answered later.
                Ok(0) => Ok(elsewhere.await.unwrap_or(0)),
                Ok(deleted) => Ok(deleted),
                Err(_) => elsewhere.await,
            },
            outcome = elsewhere.as_mut() => match outcome {
                Ok(0) => Ok(asking.await.unwrap_or(0)),
                outcome => outcome,
            },
        }
    }

    async fn delete_elsewhere<F>(
        &self,
        claim_key: &ClaimKey,
        deleting: impl Fn(Arc<etcd_client::Client>) -> F,
    ) -> std::result::Result<i64, Failure>
    where
        F: Future<Output = std::result::Result<i64, etcd_client::Error>>,
    {
        let background = self.background().map_err(Failure::NotSent)?;
        let connection = &background.connection;
        connection
            .ask_noting(RELEASE_LIMIT, deleting, || claim_key.forbid_reuse())
            .await
    }
}
