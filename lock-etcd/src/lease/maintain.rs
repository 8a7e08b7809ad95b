//! Keeps a lease alive for as long as a claim needs it.

use std::sync::Arc;
use std::time::Duration;

use etcd_client::TxnOp;
use lock_core::backend::{Clock, Moment};
use lock_core::{LossReason, Result};
use tokio::sync::watch;

use crate::connection::shared_connection::SharedConnection;
use crate::lease::migrate::migrate_all;
use crate::lease::revoke::revoke;
use crate::lease::shared_lease::SharedLease;

/// The time that one request may take.
const LIMIT: Duration = Duration::from_secs(1);

/// Keeps `lease` alive as long as necessary, and then revokes it.
///
/// That ends when the lease was without claims for a while, when it cannot be kept alive, or when
/// the client is dropped.
pub(crate) async fn maintain(
    connection: Arc<SharedConnection>,
    lease: Arc<SharedLease>,
    mut in_use: watch::Receiver<()>,
) {
    let mut again = None;
    loop {
        let (sent, ttl) = lease.counted_on();
        let due: Moment = again.unwrap_or_else(|| sent.plus(ttl / 4));
        // Each branch is cancel safe: a notification that is not consumed stays for the next
        // iteration.
        tokio::select! {
            () = Clock::Boot.sleep_until(due) => {}
            () = lease.changed.notified() => {}
            // Nothing is ever sent on this channel: it only closes.
            _ended = in_use.changed() => {
                lease.end_with(LossReason::Closed);
            }
        }
        if lease.retire_if_unused() || lease.end().is_some() {
            break;
        }
        let is_superseded = again.is_none() && lease.is_superseded();
        if is_superseded || Clock::Boot.now() >= due {
            again = keep(&connection, &lease).await;
        }
    }
    lease.end_with(LossReason::Removed);
    let (_, ttl) = lease.confirmed();
    for id in lease.ids() {
        revoke(&connection, id, ttl).await;
    }
}

/// Keeps the lease alive once. Returns when to try again if it is unknown whether the lease is
/// alive.
async fn keep(connection: &Arc<SharedConnection>, lease: &SharedLease) -> Option<Moment> {
    let (sent, ttl) = lease.confirmed();
    let lapsed = || sent.plus(ttl) <= Clock::Boot.now();
    if lapsed() {
        // The claims of the lease were lost long ago, and may never be released.
        lease.end_with(LossReason::Expired);
        return None;
    }
    let mut kept = Ok(());
    if !lease.is_superseded() {
        kept = lease.confirm().await;
    }
    if lease.is_superseded() && !lease.retire_if_unused() {
        kept = migrate_all(connection, lease).await;
    }
    match kept {
        Ok(()) => {
            if let Err(error) = delete_late_keys(connection, lease).await {
                tracing::debug!(%error, "etcd: keys of lost requests were not deleted, trying again later");
            }
            None
        }
        Err(error) => {
            tracing::debug!(%error, "etcd: lease was not kept alive, trying again");
            let (_, counted_on) = lease.counted_on();
            Some(Clock::Boot.now().plus((counted_on / 32).min(LIMIT / 4)))
        }
    }
}

/// Deletes the keys of requests that may have arrived after the client had given them up.
async fn delete_late_keys(connection: &Arc<SharedConnection>, lease: &SharedLease) -> Result<()> {
    let late_keys = lease.late_keys();
    let delete = |key: &String| TxnOp::delete(key.as_str(), None);
    connection
        .ask_for_all(LIMIT, &late_keys, delete, |_, _| ())
        .await?;
    Ok(())
}
