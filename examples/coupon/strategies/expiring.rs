//! Locks that expire, sometimes before their holder has finished.

use std::time::Duration;

use crate::coupon::accident::Point;
use crate::coupon::claim::{Answer, Claim, Failure};
use crate::coupon::sale::sell;
use crate::coupon::tools::Tools;

/// The expiry of a key. A sale takes a hundredth of it, on a busy machine a tenth.
pub(super) const EXPIRY: Duration = Duration::from_millis(500);

/// A value that does not identify the holder.
pub(super) const SAME_FOR_EVERYBODY: &str = "123456";

/// Deletes the key without a check: a late holder deletes the lock of the next holder.
pub(super) async fn fixed_owner(claim: &Claim) -> Result<Answer, Failure> {
    let Tools { commands, key, .. } = &*claim.tools;
    if !claim.take_key(SAME_FOR_EVERYBODY, Some(EXPIRY)).await? {
        return Ok(Answer::GaveUp);
    }
    let answer = sell(claim).await;
    claim.may_go_wrong(Point::BeforeDel).await?;
    commands.del(key).await?;
    answer
}

/// Compares the value before deleting the key; the key can change hands between the two.
pub(super) async fn check_then_delete(claim: &Claim) -> Result<Answer, Failure> {
    let Tools { commands, key, .. } = &*claim.tools;
    let mine = value_of_its_own();
    if !claim.take_key(&mine, Some(EXPIRY)).await? {
        return Ok(Answer::GaveUp);
    }
    let answer = sell(claim).await;
    if commands.get(key).await?.as_deref() == Some(&*mine) {
        claim.may_go_wrong(Point::BeforeDel).await?;
        commands.del(key).await?;
    }
    answer
}

/// Compares and deletes in one step, but never renews: long work continues without the lock.
pub(super) async fn short_expiry(claim: &Claim) -> Result<Answer, Failure> {
    let Tools { commands, key, .. } = &*claim.tools;
    let mine = value_of_its_own();
    if !claim.take_key(&mine, Some(EXPIRY)).await? {
        return Ok(Answer::GaveUp);
    }
    let answer = sell(claim).await;
    commands.del_if_equal(key, &mine).await?;
    answer
}

fn value_of_its_own() -> String {
    format!("{:032x}", fastrand::u128(..))
}
