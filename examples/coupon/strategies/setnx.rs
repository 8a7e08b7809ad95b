//! Locks that stay for ever if the holder does not delete them.

use std::time::Duration;

use super::expiring::SAME_FOR_EVERYBODY;
use crate::coupon::accident::Point;
use crate::coupon::claim::{Answer, Claim, Failure};
use crate::coupon::sale::sell;
use crate::coupon::tools::Tools;

/// An expiry longer than any sale: the only flaw is that it may not be set.
const EXPIRY: Duration = Duration::from_secs(30);

/// Deletes the key after success only: an error returns by `?` before the DEL.
pub(super) async fn no_expiry(claim: &Claim) -> Result<Answer, Failure> {
    let Tools { commands, key, .. } = &*claim.tools;
    if !claim.take_key(SAME_FOR_EVERYBODY, None).await? {
        return Ok(Answer::GaveUp);
    }
    let answer = sell(claim).await?;
    commands.del(key).await?;
    Ok(answer)
}

/// Deletes the key after an error, too, but not after a crash of the instance.
pub(super) async fn finally(claim: &Claim) -> Result<Answer, Failure> {
    let Tools { commands, key, .. } = &*claim.tools;
    if !claim.take_key(SAME_FOR_EVERYBODY, None).await? {
        return Ok(Answer::GaveUp);
    }
    let answer = sell(claim).await;
    commands.del(key).await?;
    answer
}

/// Sets an expiry, which frees the key of a crashed instance, unless the crash comes before it.
pub(super) async fn then_expire(claim: &Claim) -> Result<Answer, Failure> {
    let Tools { commands, key, .. } = &*claim.tools;
    if !claim.take_key(SAME_FOR_EVERYBODY, None).await? {
        return Ok(Answer::GaveUp);
    }
    claim.may_go_wrong(Point::AfterSetNx).await?;
    commands.expire(key, EXPIRY).await?;
    let answer = sell(claim).await;
    commands.del(key).await?;
    answer
}
