//! The ways to keep the sale correct, from the first idea to the last.

mod expiring;
mod nested;
mod polylock;
mod setnx;
mod several_keys;
mod without_store;

use crate::coupon::claim::{Answer, Claim, Failure};
use crate::coupon::strategy::Strategy;

/// Takes a claim through the strategy of its instance.
pub(crate) async fn buy(claim: &Claim) -> Result<Answer, Failure> {
    match claim.tools.strategy {
        Strategy::None => without_store::unguarded(claim).await,
        Strategy::LocalMutex => without_store::local_mutex(claim).await,
        Strategy::SetnxNoExpiry => setnx::no_expiry(claim).await,
        Strategy::SetnxFinally => setnx::finally(claim).await,
        Strategy::SetnxThenExpire => setnx::then_expire(claim).await,
        Strategy::FixedOwner => expiring::fixed_owner(claim).await,
        Strategy::CheckThenDelete => expiring::check_then_delete(claim).await,
        Strategy::ShortExpiry => expiring::short_expiry(claim).await,
        Strategy::Optimistic => without_store::optimistic(claim).await,
        Strategy::TwoLocks => several_keys::one_by_one(claim).await,
        Strategy::NestedLock => nested::without_owner(claim).await,
        Strategy::Polylock => polylock::guarded(claim).await,
        Strategy::MultiKey => several_keys::together(claim).await,
        Strategy::Reentrant => nested::with_owner(claim).await,
    }
}
