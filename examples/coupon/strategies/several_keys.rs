//! Two locks for one sale: the coupon's, and the user's, who may order once.

use std::time::Duration;

use polylock::{DistributedLockExt, Error, ErrorKind, LockRequest, Wait};

use super::polylock::PATIENCE;
use crate::coupon::claim::{Answer, Claim, Failure};
use crate::coupon::sale::sell;

/// Maximum wait for a lock of a sale that takes one after the other.
const LIMIT: Duration = Duration::from_secs(1);

/// Takes one lock after the other, the coupon's first on one page of the shop, and the user's first
/// on another page: two requests of one user wait for each other.
pub(super) async fn one_by_one(claim: &Claim) -> Result<Answer, Failure> {
    let mut requests = requests(claim)?;
    if claim.id % 2 == 1 {
        requests.reverse();
    }
    let [first, second] = requests.map(|request| request.waiting_at_most(LIMIT));
    let locks = &claim.tools.locks;
    let inner = async |_held| locks.with_lock(second, |_held| sell(claim)).await;
    match locks.with_lock(first, inner).await? {
        Some(answer) => answer?.unwrap_or(Ok(Answer::GaveUp)),
        None => Ok(Answer::GaveUp),
    }
}

/// Takes both locks together, which brings them into one order for everybody.
pub(super) async fn together(claim: &Claim) -> Result<Answer, Failure> {
    let locks = &claim.tools.locks;
    let taken = locks.acquire_all(requests(claim)?, Wait::within(PATIENCE));
    let Some(set) = taken.await? else {
        return Ok(Answer::GaveUp);
    };
    let answer = tokio::select! {
        biased;
        (key, reason) = set.lost() => {
            let message = format!("the lock of {key} was lost during the sale: {reason}");
            return Err(Failure::LockLost(Error::new(ErrorKind::Lost, message)));
        }
        answer = sell(claim) => answer,
    };
    set.release().await?;
    answer
}

/// Returns the requests for the coupon and for the user.
fn requests(claim: &Claim) -> Result<[LockRequest; 2], Failure> {
    let coupon = &claim.tools.key;
    let user = format!("{coupon}/user-{}", claim.user);
    let request = |key| -> Result<LockRequest, Failure> {
        Ok(LockRequest::exclusive(key)?.with_ttl(claim.tools.ttl))
    };
    Ok([request(coupon)?, request(&user)?])
}
