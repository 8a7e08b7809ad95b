//! The strategies that need no lock store: nothing, a mutex, a conditional update.

use crate::coupon::claim::{Answer, Claim, Failure};
use crate::coupon::sale::{sell, sell_by_decrement};

/// Nobody is kept out: two buyers read the same stock and both write it back less one.
pub(super) async fn unguarded(claim: &Claim) -> Result<Answer, Failure> {
    sell(claim).await
}

/// One buyer at a time, but one in each instance: right until the service is scaled out.
pub(super) async fn local_mutex(claim: &Claim) -> Result<Answer, Failure> {
    let _held = claim.tools.local_mutex.lock().await;
    sell(claim).await
}

/// The database refuses to sell what is not there, so nothing is oversold. Whether the user has an
/// order already was looked up before, and two requests of one user can both see none.
pub(super) async fn optimistic(claim: &Claim) -> Result<Answer, Failure> {
    sell_by_decrement(claim).await
}
