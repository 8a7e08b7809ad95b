//! Locks that end by themselves, sometimes before their holder is done.

use std::time::Duration;

use crate::coupon::accident::Point;
use crate::coupon::claim::{Answer, Claim, Failure};
use crate::coupon::sale::sell;
use crate::coupon::tools::Tools;

/// After this the store frees a key; a sale takes a hundredth of it, on a busy machine a tenth.
pub(super) const EXPIRY: Duration = Duration::from_millis(500);

/// A value that says nothing about who holds the lock.
pub(super) const SAME_FOR_EVERYBODY: &str = "123456";

/// Whoever is late deletes the lock of the next one, since all locks look the same.
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

/// Looks whose lock it is before deleting it, but it can change hands between the two.
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

/// Deletes nobody else's lock, but nobody prolongs it either: long work goes on without it.
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
