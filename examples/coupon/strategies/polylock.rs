//! The lock of this crate: renewed while its holder lives, freed by its ttl after a crash.

use std::time::Duration;

use polylock::{DistributedLockExt, LockRequest};

use crate::coupon::claim::{Answer, Claim, Failure};
use crate::coupon::sale::sell;

/// Maximum wait, longer than all accidents together: all buyers get an answer.
pub(super) const PATIENCE: Duration = Duration::from_secs(30);

/// Sells under a polylock: one buyer at a time, across all instances.
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
