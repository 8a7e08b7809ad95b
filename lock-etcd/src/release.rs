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
    /// Gives a hold or a place in a queue back.
    pub(crate) async fn release_claim(&self, hold: &HoldId) -> Result<Released> {
        let Some(place) = self.begin_release(hold) else {
            return Ok(Released::AlreadyLost);
        };
        place.keep_watch(None);
        if !self.is_settled(&place).await {
            // It may arrive later than what cleans it up.
            place.mark_in_doubt();
        }
        match self.delete(hold, &place).await {
            Ok(deleted) => {
                if place.is_in_doubt() {
                    place.lease.delete_until_revoked(&place.key);
                }
                if deleted == 0 {
                    place.forbid_reuse();
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
                place.lease.delete_until_revoked(&place.key);
                place.mark_in_doubt();
                place.lease.leave(hold.owner());
                self.forget_soon(&place, hold.store_ttl());
                Err(failure.into())
            }
        }
    }

    /// Waits for the end of the take at `place`, for as long as it has where somebody drives it.
    async fn is_settled(&self, place: &ClaimKey) -> bool {
        let Ok(background) = self.background() else {
            return false;
        };
        let settled = background.link.within(SETTLING_LIMIT, place.settled());
        settled.await.is_some()
    }

    async fn delete(
        &self,
        hold: &HoldId,
        place: &Arc<ClaimKey>,
    ) -> std::result::Result<i64, Failure> {
        let deleting = |client: Arc<etcd_client::Client>| {
            let place = Arc::clone(place);
            async move {
                let deleted = client.kv_client().delete(&*place.key, None).await;
                deleted.map(|deleted| deleted.deleted())
            }
        };
        let Some(lane) = self.lane_of(hold) else {
            return self.delete_elsewhere(place, deleting).await;
        };
        let in_doubt = || place.forbid_reuse();
        let mut asking = pin!(lane.ask_noting(RELEASE_LIMIT * 2, deleting, in_doubt));
        let is_at_home = Handle::try_current().is_ok_and(|here| here.id() == hold.runtime());
        let patience = match place.is_in_doubt() || is_at_home {
            true => RELEASE_LIMIT,
            // Nothing of it is on its way there, where perhaps nobody hears the answer.
            false => (lane.heard().latency * 4).clamp(HEAD_START, RELEASE_LIMIT),
        };
        match lane.within(patience, asking.as_mut()).await {
            Some(Err(failure)) if failure.is_retryable() => {
                return self.delete_elsewhere(place, deleting).await;
            }
            Some(outcome) => return outcome,
            None => place.forbid_reuse(),
        }
        // It may be slow only, and then it knows better what was there.
        let mut elsewhere = pin!(self.delete_elsewhere(place, deleting));
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
        place: &ClaimKey,
        deleting: impl Fn(Arc<etcd_client::Client>) -> F,
    ) -> std::result::Result<i64, Failure>
    where
        F: Future<Output = std::result::Result<i64, etcd_client::Error>>,
    {
        let background = self.background().map_err(Failure::NotSent)?;
        let link = &background.link;
        link.ask_noting(RELEASE_LIMIT, deleting, || place.forbid_reuse())
            .await
    }
}
