//! The sale: the work that the lock guards, the same for all locks.

use std::time::Duration;

use crate::coupon::accident::Point;
use crate::coupon::claim::{Answer, Claim, Failure};

/// Time that the service works between reading the books and writing them.
const WORK: Duration = Duration::from_millis(1);

/// Sells a coupon to the claim's user: reads the books, decides, and writes them.
///
/// Correct while no other claim is in this function.
pub(crate) async fn sell(claim: &Claim) -> Result<Answer, Failure> {
    let shop = &claim.tools.headquarters;
    sell_and(claim, async || {
        shop.write_order(claim.user).await?;
        Ok(Answer::Bought)
    })
    .await
}

/// Like [`sell`], with another way to place the order, which returns the answer to the buyer.
pub(crate) async fn sell_and(
    claim: &Claim,
    place_order: impl AsyncFnOnce() -> Result<Answer, Failure>,
) -> Result<Answer, Failure> {
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
    let answer = place_order().await?;
    if answer == Answer::Bought {
        shop.write_stock(stock - 1).await?;
    }
    Ok(answer)
}

/// Like [`sell`], but with a decrement that fails at zero, and no write of the stock.
///
/// The check for an earlier order of the user is a separate step.
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
