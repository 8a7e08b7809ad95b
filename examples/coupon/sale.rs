//! The sale itself: the work that a lock has to guard, the same under every one of them.

use std::time::Duration;

use crate::coupon::accident::Point;
use crate::coupon::claim::{Answer, Claim, Failure};

/// What the service has to do between reading the books and writing them.
const WORK: Duration = Duration::from_millis(1);

/// Sells a coupon to the claim's user: reads the books, decides, and writes them. Correct as long
/// as nobody else is in here.
pub(crate) async fn sell(claim: &Claim) -> Result<Answer, Failure> {
    let shop = &claim.tools.headquarters;
    let stock = shop.read_stock().await?;
    if stock == 0 {
        return Ok(Answer::SoldOut);
    }
    if shop.has_order(claim.user).await? {
        return Ok(Answer::HasOneAlready);
    }
    claim.may_go_wrong(Point::BeforeWriting).await?;
    tokio::time::sleep(WORK).await;
    shop.write_stock(stock - 1).await?;
    shop.write_order(claim.user).await?;
    Ok(Answer::Bought)
}

/// The same with a decrement that fails when nothing is left, instead of a stock that is written
/// back. Nothing ties it to the look for an order of the same user.
pub(crate) async fn sell_by_decrement(claim: &Claim) -> Result<Answer, Failure> {
    let shop = &claim.tools.headquarters;
    if shop.read_stock().await? == 0 {
        return Ok(Answer::SoldOut);
    }
    if shop.has_order(claim.user).await? {
        return Ok(Answer::HasOneAlready);
    }
    claim.may_go_wrong(Point::BeforeWriting).await?;
    tokio::time::sleep(WORK).await;
    if !shop.decrement_if_positive().await? {
        return Ok(Answer::SoldOut);
    }
    shop.write_order(claim.user).await?;
    Ok(Answer::Bought)
}
