//! Moves claims from one lease to the next.

use std::sync::Arc;
use std::time::Duration;

use etcd_client::{Compare, CompareOp, PutOptions, Txn, TxnOp, TxnOpResponse};
use lock_core::Result;
use lock_core::backend::{ClaimId, Clock, Moment};

use crate::claim::key::ClaimKey;
use crate::connection::shared_connection::SharedConnection;
use crate::error::{Failure, leader_changed};
use crate::lease::grant::Granting;
use crate::lease::revoke::spawn_revoke;
use crate::lease::shared_lease::SharedLease;

/// The time that one request may take.
const LIMIT: Duration = Duration::from_secs(1);

/// Moves all claims of a superseded lease to a new lease, without a change of their order in the
/// queues. Revokes the old lease, which is not needed any more.
///
/// After an error, call it again: it moves the remaining claims to the same new lease.
pub(crate) async fn migrate_all(
    connection: &Arc<SharedConnection>,
    lease: &SharedLease,
) -> Result<()> {
    let (former, next) = lease.begin_move().await?;
    // The outcome is ignored: claims may be gone, or may have moved already.
    let _all = reassign(connection, &lease.keys(), former, next.id, LIMIT).await?;
    lease.end_move(next);
    spawn_revoke(connection, former, next.ttl);
    Ok(())
}

/// Moves a key that arrived under the old lease after the other keys had moved.
pub(crate) async fn follow(
    command: &Arc<SharedConnection>,
    claim_key: &ClaimKey,
    former: i64,
    ends: Moment,
) -> std::result::Result<(), Failure> {
    let key = [Arc::clone(&claim_key.key)];
    let left = ends.since(Clock::Boot.now());
    match reassign(command, &key, former, claim_key.lease.id(), left).await {
        Ok(true) => Ok(()),
        // Another request has moved the key, or it was deleted with its lease: the next attempt
        // shows which.
        Ok(false) => Err(Failure::Unknown(leader_changed())),
        Err(failure) => Err(failure),
    }
}

/// Moves the key of a claim to a lease of its own that ends by itself after `ttl`. Calls after an
/// error use the lease of the first call. Returns false if the key is not there, or was moved
/// before.
///
/// Invariant: nobody revokes that lease. Why: the key may be under it although the call returns
/// false or an error, since a request is repeated when its answer is lost.
pub(crate) async fn move_to_own_lease(
    connection: &Arc<SharedConnection>,
    granting: &Granting,
    claim: (ClaimId, &ClaimKey),
    ttl: Duration,
) -> Result<bool> {
    let (claim, claim_key) = claim;
    // The request may arrive late, when another claim would have the name.
    claim_key.forbid_reuse();
    let granting = async || granting.grant(claim, ttl).await.map(|own| own.id);
    let own = *claim_key.own_lease.get_or_try_init(granting).await?;
    let key = [Arc::clone(&claim_key.key)];
    Ok(reassign(connection, &key, claim_key.lease.id(), own, LIMIT).await?)
}

/// Moves keys, with their values, from the lease `from` to the lease `to`. Returns true if all keys
/// were attached to `from`. The request may arrive late, or twice, so it never writes a value.
async fn reassign(
    connection: &Arc<SharedConnection>,
    keys: &[Arc<str>],
    from: i64,
    to: i64,
    limit: Duration,
) -> std::result::Result<bool, Failure> {
    let moves = |key: &Arc<str>| {
        let put = PutOptions::new().with_lease(to).with_ignore_value();
        let moves = Txn::new()
            .when([Compare::lease(&**key, CompareOp::Equal, from)])
            .and_then([TxnOp::put(&**key, "", Some(put))]);
        TxnOp::txn(moves)
    };
    let has_moved =
        |_, outcome: &TxnOpResponse| matches!(outcome, TxnOpResponse::Txn(one) if one.succeeded());
    let outcomes = connection
        .ask_for_all(limit, keys, moves, has_moved)
        .await?;
    Ok(outcomes.into_iter().all(|has_moved| has_moved))
}
