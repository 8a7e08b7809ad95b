//! Revokes leases.

use std::sync::Arc;
use std::time::Duration;

use lock_core::backend::{Backoff, Clock};

use crate::connection::shared_connection::SharedConnection;
use crate::error::Failure;

/// The time that one request may take.
const LIMIT: Duration = Duration::from_secs(1);

/// Revokes a lease like [`revoke`], in a task of its own.
pub(crate) fn spawn_revoke(connection: &Arc<SharedConnection>, lease: i64, within: Duration) {
    let shared = Arc::clone(connection);
    let revoking = async move { revoke(&shared, lease, within).await };
    connection.runtime().spawn(revoking);
}

/// Revokes a lease, which deletes all keys that are attached to it. Tries again until `within` has
/// passed: by then the lease has expired, unless the servers were down.
pub(crate) async fn revoke(connection: &Arc<SharedConnection>, lease: i64, within: Duration) {
    let ends = Clock::Boot.now().plus(within);
    let mut backoff = Backoff::new(Duration::from_millis(10), LIMIT);
    loop {
        let revoking = |client: Arc<etcd_client::Client>| async move {
            client.lease_client().revoke(lease).await
        };
        match connection.ask(LIMIT, revoking).await {
            Ok(_) | Err(Failure::LeaseMissing(_)) => return,
            Err(failure) => {
                let left = ends.since(Clock::Boot.now());
                let error = lock_core::Error::from(failure);
                if left.is_zero() {
                    tracing::debug!(%error, "etcd: lease was not revoked, it expires after its ttl");
                    return;
                }
                tokio::time::sleep(backoff.next_pause().min(left)).await;
            }
        }
    }
}
