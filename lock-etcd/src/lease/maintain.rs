//! Keeps a lease alive for as long as a claim needs it.

use std::sync::Arc;
use std::time::Duration;

use etcd_client::TxnOp;
use lock_core::{Backoff, Clock, LossReason, Moment, Result};
use tokio::sync::watch;

use crate::connection::shared::SharedConnection;
use crate::error::{Failure, is_lease_missing};
use crate::lease::migrate::migrate_all;
use crate::lease::shared::SharedLease;

/// The time that one request may take here.
const LIMIT: Duration = Duration::from_secs(1);

/// Keeps `lease` alive until nobody stands under it for a while, it cannot be kept alive, or nobody has
/// the client any more; then it is revoked.
pub(crate) async fn maintain(
    link: Arc<SharedConnection>,
    lease: Arc<SharedLease>,
    mut in_use: watch::Receiver<()>,
) {
    let mut again = None;
    loop {
        let (sent, ttl) = lease.counted_on();
        let due: Moment = again.unwrap_or_else(|| sent.plus(ttl / 4));
        // Each arm is cancel safe: a notification that is not consumed stays for the next turn.
        tokio::select! {
            () = Clock::Boot.sleep_until(due) => {}
            () = lease.changed.notified() => {}
            // Nothing is ever sent: it only ends.
            _ended = in_use.changed() => {
                lease.end_with(LossReason::Closed);
            }
        }
        if lease.retire_if_unused() || lease.end().is_some() {
            break;
        }
        let is_superseded = again.is_none() && lease.is_superseded();
        if is_superseded || Clock::Boot.now() >= due {
            again = keep(&link, &lease).await;
        }
    }
    lease.end_with(LossReason::Removed);
    let (_, ttl) = lease.confirmed();
    for id in lease.ids() {
        revoke(&link, id, ttl).await;
    }
}

/// Keeps the lease alive once; when to try again, if it is not known whether it lives.
async fn keep(link: &Arc<SharedConnection>, lease: &SharedLease) -> Option<Moment> {
    let (sent, ttl) = lease.confirmed();
    let lapsed = || sent.plus(ttl) <= Clock::Boot.now();
    if lapsed() {
        // Whoever stood under it was told long ago, and may never come to release.
        lease.end_with(LossReason::Expired);
        return None;
    }
    let mut kept = Ok(());
    if !lease.is_superseded() {
        kept = lease.confirm().await;
    }
    if lease.is_superseded() && !lease.retire_if_unused() {
        kept = replace(link, lease).await;
    }
    match kept {
        Ok(()) => {
            if let Err(error) = delete_late_keys(link, lease).await {
                tracing::debug!(%error, "what may be left of lost requests is deleted later");
            }
            None
        }
        Err(error) => {
            tracing::debug!(%error, "a lease was not kept alive; trying again");
            let (_, counted_on) = lease.counted_on();
            Some(Clock::Boot.now().plus((counted_on / 32).min(LIMIT / 4)))
        }
    }
}

/// Has all move who stand under it, and gives up what they leave.
async fn replace(link: &Arc<SharedConnection>, lease: &SharedLease) -> Result<()> {
    let former = migrate_all(link, lease).await?;
    let (_, ttl) = lease.confirmed();
    let link = Arc::clone(link);
    link.runtime().clone().spawn(async move {
        revoke(&link, former, ttl).await;
    });
    Ok(())
}

/// Deletes what requests may have put there that arrived after everybody had given them up.
async fn delete_late_keys(link: &Arc<SharedConnection>, lease: &SharedLease) -> Result<()> {
    let late_keys = lease.late_keys();
    let delete = |key: &String| TxnOp::delete(key.as_str(), None);
    link.ask_for_all(LIMIT, &late_keys, delete, |_, _| ())
        .await?;
    Ok(())
}

/// Revokes a lease, with all keys under it. Tries for so long: by then it has ended by itself, unless
/// the servers were gone themselves.
pub(crate) async fn revoke(link: &Arc<SharedConnection>, lease: i64, within: Duration) {
    let ends = Clock::Boot.now().plus(within);
    let mut backoff = Backoff::new(Duration::from_millis(10), LIMIT);
    loop {
        let revoking = |client: Arc<etcd_client::Client>| async move {
            client.lease_client().revoke(lease).await
        };
        match link.ask(LIMIT, revoking).await {
            Ok(_) => return,
            Err(Failure::Refused(refusal)) if is_lease_missing(&refusal.error) => return,
            Err(failure) => {
                let left = ends.since(Clock::Boot.now());
                let error = lock_core::Error::from(failure);
                if left.is_zero() {
                    tracing::debug!(%error, "a lease was not revoked; it ends by itself");
                    return;
                }
                tokio::time::sleep(backoff.next_pause().min(left)).await;
            }
        }
    }
}
