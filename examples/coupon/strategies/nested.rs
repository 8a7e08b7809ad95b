//! A sale under a lock, in which a function takes the same lock.

use std::time::Duration;

use polylock::{DistributedLock, DistributedLockExt, LockRequest, Owner};

use super::polylock::PATIENCE;
use crate::coupon::claim::{Answer, Claim, Failure};
use crate::coupon::sale::sell_and;

/// Maximum wait of a sale that has no owner.
const LIMIT: Duration = Duration::from_secs(1);

/// Takes the lock again inside of the sale, which waits for itself.
pub(super) async fn without_owner(claim: &Claim) -> Result<Answer, Failure> {
    sell_nested(claim, &*claim.tools.locks, LIMIT).await
}

/// Takes the lock again with the same owner, which enters it at once.
pub(super) async fn with_owner(claim: &Claim) -> Result<Answer, Failure> {
    let locks = claim.tools.locks.with_owner(&Owner::new());
    sell_nested(claim, &locks, PATIENCE).await
}

async fn sell_nested(
    claim: &Claim,
    locks: &dyn DistributedLock,
    limit: Duration,
) -> Result<Answer, Failure> {
    let request = request(claim, limit)?;
    let sale = async |_held| sell_and(claim, async || place_order(claim, locks, limit).await).await;
    let answer = locks.with_lock(request, sale).await?;
    answer.unwrap_or(Ok(Answer::GaveUp))
}

/// Places an order under the lock: other parts of the service call it without holding the lock.
async fn place_order(
    claim: &Claim,
    locks: &dyn DistributedLock,
    limit: Duration,
) -> Result<Answer, Failure> {
    let shop = &claim.tools.headquarters;
    let write = async |_held| shop.write_order(claim.user).await;
    match locks.with_lock(request(claim, limit)?, write).await? {
        Some(written) => written.map(|()| Answer::Bought).map_err(Failure::from),
        None => Ok(Answer::GaveUp),
    }
}

fn request(claim: &Claim, limit: Duration) -> Result<LockRequest, Failure> {
    let request = LockRequest::exclusive(&claim.tools.key)?;
    Ok(request.with_ttl(claim.tools.ttl).waiting_at_most(limit))
}
