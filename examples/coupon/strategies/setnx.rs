//! Locks that stay for ever when the one who has to delete them does not get there.

use std::time::Duration;

use super::expiring::SAME_FOR_EVERYBODY;
use crate::coupon::accident::Point;
use crate::coupon::claim::{Answer, Claim, Failure};
use crate::coupon::sale::sell;
use crate::coupon::tools::Tools;

/// Longer than any sale takes, so that what goes wrong is only that it is not set.
const EXPIRY: Duration = Duration::from_secs(30);

/// An error leaves through the question mark, past the DEL.
pub(super) async fn no_expiry(claim: &Claim) -> Result<Answer, Failure> {
    let Tools { commands, key, .. } = &*claim.tools;
    if !claim.take_key(SAME_FOR_EVERYBODY, None).await? {
        return Ok(Answer::GaveUp);
    }
    let answer = sell(claim).await?;
    commands.del(key).await?;
    Ok(answer)
}

/// The DEL follows an error, too, but not the end of the instance.
pub(super) async fn finally(claim: &Claim) -> Result<Answer, Failure> {
    let Tools { commands, key, .. } = &*claim.tools;
    if !claim.take_key(SAME_FOR_EVERYBODY, None).await? {
        return Ok(Answer::GaveUp);
    }
    let answer = sell(claim).await;
    commands.del(key).await?;
    answer
}

/// The expiry would free the lock of a crashed instance, unless it crashes before it is set.
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
