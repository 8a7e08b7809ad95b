//! Renews and releases holds.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use futures_util::future::join_all;
use lock_core::backend::{HoldId, LeaseStore, Released, Renewal};
use lock_core::{LossReason, Result};

use crate::claim_key::ClaimKey;
use crate::client::Client;
use crate::lease::shared::SharedLease;
use crate::watch::messages::{WatchEvent, Watched};

/// The time that the request for the keys of holds may take.
const LOOK_LIMIT: Duration = Duration::from_secs(1);

#[async_trait]
impl LeaseStore for Client {
    async fn renew(&self, holds: &[HoldId]) -> Result<Vec<Renewal>> {
        let claims: Vec<Option<Arc<ClaimKey>>> =
            holds.iter().map(|hold| self.known(hold)).collect();
        let known: Vec<&Arc<ClaimKey>> = claims.iter().flatten().collect();
        // The leases show whether the holds are alive, the keys whether they were deleted.
        let (confirmed, found) =
            tokio::join!(confirm_all(&known), self.which_stand(&known, LOOK_LIMIT));
        let mut found = found?.into_iter();
        let renewals = claims.iter().map(|claim_key| {
            let Some(claim_key) = claim_key else {
                return Renewal::Lost(LossReason::Removed);
            };
            self.renewed(claim_key, found.next().flatten(), &confirmed)
        });
        Ok(renewals.collect())
    }

    async fn release(&self, hold: &HoldId) -> Result<Released> {
        self.release_claim(hold).await
    }
}

impl Client {
    fn renewed(
        &self,
        claim_key: &Arc<ClaimKey>,
        stood: Option<i64>,
        confirmed: &HashMap<i64, bool>,
    ) -> Renewal {
        if let Some(reason) = claim_key.lease.end() {
            return Renewal::Lost(reason);
        }
        let Some(stood) = stood else {
            return Renewal::Lost(LossReason::Removed);
        };
        if !confirmed.get(&claim_key.lease.id()).is_some_and(|it| *it) {
            return Renewal::Unknown;
        }
        if !claim_key.note_seen(stood) {
            self.watch_hold(claim_key, stood);
        }
        let (sent, ttl) = claim_key.lease.confirmed();
        Renewal::Held { sent, ttl }
    }

    /// Watches the key of a hold, which was there in the revision `stood`. A hold is watched from
    /// its first renewal on: shorter ones need no watch.
    fn watch_hold(&self, claim_key: &Arc<ClaimKey>, stood: i64) {
        let Ok(background) = self.background() else {
            return;
        };
        let watched = Watched::Key(claim_key.key.as_bytes().to_vec());
        let (loss, watching) = (claim_key.loss.clone(), Arc::downgrade(claim_key));
        let tell = move |news| match news {
            WatchEvent::Deleted(..) => loss.lost(LossReason::Removed),
            // The next renewal looks at the key, and watches it again.
            WatchEvent::Lost => {
                if let Some(claim_key) = watching.upgrade() {
                    claim_key.keep_watch(None);
                }
            }
            WatchEvent::Stale => {}
        };
        claim_key.keep_watch(background.watches.watch_from(stood + 1, watched, tell).ok());
    }
}

/// Confirms each lease of `claims` once. Returns for each of them whether it was confirmed.
async fn confirm_all(claims: &[&Arc<ClaimKey>]) -> HashMap<i64, bool> {
    let leases: HashMap<i64, &Arc<SharedLease>> = claims
        .iter()
        .map(|claim_key| (claim_key.lease.id(), &claim_key.lease))
        .collect();
    let asking = leases.into_iter().map(|(id, lease)| async move {
        let outcome = lease.confirm().await;
        if let Err(error) = &outcome {
            tracing::debug!(%error, "a lease was not kept alive; trying again");
        }
        (id, outcome.is_ok())
    });
    join_all(asking).await.into_iter().collect()
}
