//! Limits that a backend reports for holds whose session got a shorter timeout.

use std::time::Duration;

use crate::support::{Answer, TTL, keeper};
use lock_core::LossReason;
use tokio::time::sleep;

#[tokio::test(start_paused = true)]
async fn a_limit_that_the_backend_reports_holds_until_a_later_request_is_confirmed() {
    const LIMIT: Duration = Duration::from_secs(4);
    let (lease, keeper) = keeper();
    let mut claim = crate::support::claim(&keeper, "k");
    let loss = claim.loss();
    let sent = claim.sending();
    lease.renewal_answers(Answer::Since(sent, TTL));
    let token = lock_core::FencingToken::from_grant(1).unwrap();
    let guard = claim.granted(token, sent, TTL).expect("in time");
    sleep(Duration::from_secs(1)).await;
    loss.limit(keeper.clock().now(), LIMIT);
    assert!(guard.remaining() <= LIMIT, "{:?}", guard.remaining());
    sleep(LIMIT / 2).await;
    assert!(lease.renewals() > 0, "nothing is asked");
    assert!(guard.remaining() <= LIMIT / 2, "an answer of before counts");
    lease.renewal_answers(Answer::Yes);
    sleep(LIMIT).await;
    assert!(guard.remaining() > LIMIT, "{:?}", guard.remaining());
}

#[tokio::test(start_paused = true)]
async fn a_limit_before_the_grant_bounds_it() {
    const LIMIT: Duration = Duration::from_secs(4);
    let (lease, keeper) = keeper();
    lease.renewal_answers(Answer::Error);
    let mut claim = crate::support::claim(&keeper, "k");
    let loss = claim.loss();
    let sent = claim.sending();
    sleep(Duration::from_millis(1)).await;
    loss.limit(keeper.clock().now(), 2 * LIMIT);
    sleep(Duration::from_millis(1)).await;
    loss.limit(keeper.clock().now(), LIMIT);
    sleep(Duration::from_millis(1)).await;
    // A later, longer limit changes nothing: the store may have acted on the earlier limit.
    loss.limit(keeper.clock().now(), 3 * LIMIT);
    let token = lock_core::FencingToken::from_grant(1).unwrap();
    let guard = claim.granted(token, sent, TTL).expect("in time");
    assert!(guard.remaining() <= LIMIT, "{:?}", guard.remaining());
    assert_eq!(guard.lost().await, LossReason::Expired);
}
