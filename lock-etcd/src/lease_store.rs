//! Renews and releases holds.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use etcd_client::GetOptions;
use futures_util::future::join_all;
use lock_core::backend::{
    Claim, Converted, HoldId, LeaseStore, Released, Renewal, StoreGrant, TwoRoutes,
};
use lock_core::{ErrorKind, KeyInfo, LockKey, LossReason, Result};

use crate::claim::key::ClaimKey;
use crate::client::Client;
use crate::connection::shared_connection::REPLY_LIMIT;
use crate::error::Failure;
use crate::lease::migrate::move_to_own_lease;
use crate::lease::shared_lease::SharedLease;
use crate::watch::messages::{WatchEvent, WatchedKeys};

/// The time that the request for the keys of holds may take.
const LOOK_LIMIT: Duration = Duration::from_secs(1);

/// The time that a clean-up waits for the end of its take. The take never ends if its runtime is
/// not driven any more.
const SETTLING_LIMIT: Duration = Duration::from_millis(2500);

/// The time that a release waits on each of its two connections.
const RELEASE_LIMIT: Duration = Duration::from_secs(1);

/// The time that a release waits on the connection of its take before it also uses the other
/// connection. The runtime of the first connection may not be driven.
const HEAD_START: Duration = Duration::from_millis(50);

#[async_trait]
impl LeaseStore for Client {
    async fn renew(&self, holds: &[HoldId]) -> Result<Vec<Renewal>> {
        let claims: Vec<Option<Arc<ClaimKey>>> =
            holds.iter().map(|hold| self.known(hold)).collect();
        let known: Vec<&Arc<ClaimKey>> = claims.iter().flatten().collect();
        // The leases show whether the holds are alive, the keys whether they were deleted.
        let (confirmed, found) = tokio::join!(
            confirm_all(&known),
            self.existing_claims(&known, LOOK_LIMIT)
        );
        let mut found = found?.into_iter();
        let renewals = claims.iter().map(|claim_key| {
            let Some(claim_key) = claim_key else {
                return Renewal::Lost(LossReason::Removed);
            };
            self.renewed(claim_key, found.next().flatten(), &confirmed)
        });
        Ok(renewals.collect())
    }

    /// Releases a hold, or a claim that waits in a queue.
    async fn release(&self, hold: &HoldId) -> Result<Released> {
        let Some(claim_key) = self.begin_release(hold) else {
            return Ok(Released::AlreadyLost);
        };
        claim_key.set_watch(None);
        let settled = match self.background() {
            Ok(background) => {
                let settled = claim_key.settled();
                background.connection.within(SETTLING_LIMIT, settled).await
            }
            Err(_) => None,
        };
        if settled.is_none() {
            // The take may arrive after the delete.
            claim_key.mark_in_doubt();
        }
        match self.delete(hold, &claim_key).await {
            Ok(released) => {
                if claim_key.is_in_doubt() {
                    claim_key.lease.delete_until_revoked(&claim_key.key);
                }
                if released == Released::AlreadyLost {
                    claim_key.forbid_reuse();
                }
                self.leave(hold.claim());
                Ok(released)
            }
            Err(failure) => {
                // The lease ends with its other claims, which deletes the key. Until then the key
                // is deleted again and again.
                claim_key.lease.delete_until_revoked(&claim_key.key);
                claim_key.mark_in_doubt();
                claim_key.lease.leave(hold.claim());
                self.forget_soon(&claim_key, hold.store_ttl());
                Err(failure.into())
            }
        }
    }

    /// Moves the key of a hold to a lease that ends by itself. Its former lease is kept alive.
    async fn shorten(&self, hold: &HoldId, left: Duration) -> Result<Released> {
        let Some(claim_key) = self.known(hold) else {
            return Ok(Released::AlreadyLost);
        };
        let background = self.background()?;
        let (connection, granting) = (&background.connection, &background.leases.granting);
        let claim = (hold.claim(), &*claim_key);
        let ttl = whole_seconds(left).max(self.shortest);
        if move_to_own_lease(connection, granting, claim, ttl).await? {
            return Ok(Released::Released);
        }
        let found = self.existing_claims(&[&claim_key], LOOK_LIMIT).await?;
        Ok(match found.first() {
            Some(Some(_)) => Released::Released,
            Some(None) | None => Released::AlreadyLost,
        })
    }

    async fn convert(&self, from: &HoldId, to: &Claim) -> Result<Converted> {
        self.convert_claim(from, to).await
    }

    async fn take_together(&self, claims: &mut [Claim]) -> Result<Option<Vec<StoreGrant>>> {
        self.take_all(claims).await
    }

    async fn inspect(&self, key: &LockKey) -> Result<KeyInfo> {
        self.inspect_key(key).await
    }

    /// Reads a key, which the members agree on, on the background connection.
    async fn ping(&self) -> Result<()> {
        let connection = Arc::clone(&self.background()?.connection);
        let read = |client: Arc<etcd_client::Client>| async move {
            let look = GetOptions::new().with_count_only();
            client.kv_client().get(self.keys.probe(), Some(look)).await
        };
        match connection.ask(REPLY_LIMIT, read).await {
            // Without a namespace, the user may not have the permission to read the key.
            Err(Failure::Refused(error)) if error.kind() == ErrorKind::Denied => Ok(()),
            answer => Ok(answer.map(drop)?),
        }
    }
}

/// Returns the ttl of a lease that lasts for `time` from its grant on.
fn whole_seconds(time: Duration) -> Duration {
    Duration::from_secs(time.as_secs() + 1)
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
    /// its first renewal on, since shorter holds need no watch.
    fn watch_hold(&self, claim_key: &Arc<ClaimKey>, stood: i64) {
        let Ok(background) = self.background() else {
            return;
        };
        let watched = WatchedKeys::Key(claim_key.key.as_bytes().to_vec());
        let (loss, watching) = (claim_key.loss.clone(), Arc::downgrade(claim_key));
        let tell = move |news| match news {
            WatchEvent::Deleted(..) => loss.lost(LossReason::Removed),
            // The next renewal looks at the key, and watches it again.
            WatchEvent::Lost => {
                if let Some(claim_key) = watching.upgrade() {
                    claim_key.set_watch(None);
                }
            }
            WatchEvent::Written(_) | WatchEvent::Stale => {}
        };
        claim_key.set_watch(background.watches.watch_from(stood + 1, watched, tell).ok());
    }

    async fn delete(
        &self,
        hold: &HoldId,
        claim_key: &Arc<ClaimKey>,
    ) -> std::result::Result<Released, Failure> {
        let deleting = |client: Arc<etcd_client::Client>| {
            let claim_key = Arc::clone(claim_key);
            async move {
                let deleted = client.kv_client().delete(&*claim_key.key, None).await;
                deleted.map(|deleted| match deleted.deleted() {
                    0 => Released::AlreadyLost,
                    _ => Released::Released,
                })
            }
        };
        let Some(command) = self.command_of(hold) else {
            return self.delete_elsewhere(claim_key, deleting).await;
        };
        let in_doubt = || claim_key.forbid_reuse();
        let here = command.ask_noting(RELEASE_LIMIT * 2, deleting, in_doubt);
        let head_start = match claim_key.is_in_doubt() || hold.is_on_its_runtime() {
            true => RELEASE_LIMIT,
            // No request of the claim is under way on that runtime, which may not be driven.
            false => (command.replies.last().latency * 4).clamp(HEAD_START, RELEASE_LIMIT),
        };
        let routes = TwoRoutes {
            deadlines: command.deadlines(),
            runtime: command.runtime(),
            head_start,
            limit: RELEASE_LIMIT,
        };
        let elsewhere = || {
            claim_key.forbid_reuse();
            self.delete_elsewhere(claim_key, deleting)
        };
        routes.release(here, Failure::is_retryable, elsewhere).await
    }

    async fn delete_elsewhere<F>(
        &self,
        claim_key: &ClaimKey,
        deleting: impl Fn(Arc<etcd_client::Client>) -> F,
    ) -> std::result::Result<Released, Failure>
    where
        F: Future<Output = std::result::Result<Released, etcd_client::Error>>,
    {
        let background = self.background().map_err(Failure::NotSent)?;
        let connection = &background.connection;
        connection
            .ask_noting(RELEASE_LIMIT, deleting, || claim_key.forbid_reuse())
            .await
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
            tracing::debug!(%error, "etcd: lease was not kept alive, trying again");
        }
        (id, outcome.is_ok())
    });
    join_all(asking).await.into_iter().collect()
}
