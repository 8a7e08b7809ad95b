//! The strategies without a lock store: no lock, a mutex, a conditional update.

use crate::coupon::claim::{Answer, Claim, Failure};
use crate::coupon::sale::{sell, sell_by_decrement};

/// Sells without a lock: two buyers read the same stock, and both write it back less one.
pub(super) async fn unguarded(claim: &Claim) -> Result<Answer, Failure> {
    sell(claim).await
}

/// Sells under a mutex of the instance: correct until the service has several instances.
pub(super) async fn local_mutex(claim: &Claim) -> Result<Answer, Failure> {
    let _held = claim.tools.local_mutex.lock().await;
    sell(claim).await
}

/// Sells by a conditional decrement, so the shop never oversells.
///
/// The check for an earlier order comes before, so two requests of one user can both find none.
pub(super) async fn optimistic(claim: &Claim) -> Result<Answer, Failure> {
    sell_by_decrement(claim).await
}
