//! The lock of this crate: renewed while its holder lives, freed by its ttl when it does not.

use std::time::Duration;

use polylock::{DistributedLockExt, LockRequest};

use crate::coupon::claim::{Answer, Claim, Failure};
use crate::coupon::sale::sell;

/// Longer than all the accidents together: here everybody is served.
const PATIENCE: Duration = Duration::from_secs(30);

/// One buyer at a time, everywhere.
pub(super) async fn guarded(claim: &Claim) -> Result<Answer, Failure> {
    let request = LockRequest::exclusive(&claim.tools.key)?
        .with_ttl(claim.tools.ttl)
        .waiting_at_most(PATIENCE);
    let answer = claim
        .tools
        .locks
        .with_lock(request, |_held| sell(claim))
        .await?;
    answer.unwrap_or(Ok(Answer::GaveUp))
}
