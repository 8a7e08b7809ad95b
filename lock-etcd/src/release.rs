//! Giving claims back.

use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use lock_core::{HoldId, Released, Result};
use tokio::runtime::Handle;

use crate::claim_key::ClaimKey;
use crate::client::Client;
use crate::error::Failure;

/// The time that a clean-up waits for the end of its take, which nobody sees where its runtime is not driven any more.
const SETTLING_LIMIT: Duration = Duration::from_millis(2500);

/// The time that a release waits on each of the two connections.
const RELEASE_LIMIT: Duration = Duration::from_secs(1);

/// The time that a release waits on the connection of its take, whose runtime nobody may drive, before another one is asked,
/// too.
const HEAD_START: Duration = Duration::from_millis(50);

impl Client {
    /// Gives a hold or a claim_key in a queue back.
    pub(crate) async fn release_claim(&self, hold: &HoldId) -> Result<Released> {
        let Some(claim_key) = self.begin_release(hold) else {
            return Ok(Released::AlreadyLost);
        };
        claim_key.keep_watch(None);
        if !self.is_settled(&claim_key).await {
            // It may arrive later than what cleans it up.
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
                self.leave(hold.owner());
                Ok(if deleted > 0 {
                    Released::Released
                } else {
                    Released::AlreadyLost
                })
            }
            Err(failure) => {
                // Its lease ends with the others under it, and deletes it as long as it lives.
                claim_key.lease.delete_until_revoked(&claim_key.key);
                claim_key.mark_in_doubt();
                claim_key.lease.leave(hold.owner());
                self.forget_soon(&claim_key, hold.store_ttl());
                Err(failure.into())
            }
        }
    }

    /// Waits for the end of the take at `claim_key`, for as long as it has where somebody drives it.
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
            // Nothing of it is on its way there, where perhaps nobody hears the answer.
            false => (command.last_reply().latency * 4).clamp(HEAD_START, RELEASE_LIMIT),
        };
        match command.within(patience, asking.as_mut()).await {
            Some(Err(failure)) if failure.is_retryable() => {
                return self.delete_elsewhere(claim_key, deleting).await;
            }
            Some(outcome) => return outcome,
            None => claim_key.forbid_reuse(),
        }
        // It may be slow only, and then it knows better what was there.
        let mut elsewhere = pin!(self.delete_elsewhere(claim_key, deleting));
        tokio::select! {
            outcome = asking.as_mut() => match outcome {
                // Or the other one was there before it, and is told later.
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
