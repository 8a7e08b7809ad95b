//! The end of a client, on paused time.

use std::time::Duration;

use lock_core::{ErrorKind, LockRequest, LossReason, Released};
use tokio::time::Instant;

use crate::support::{Answer, TTL, claim, hold, keeper};

const LIMIT: Duration = Duration::from_secs(5);

#[tokio::test(start_paused = true)]
async fn a_hold_is_told_of_its_end_and_released_once() {
    let (lease, keeper) = keeper();
    let (dropped, released) = (hold(&keeper, "a"), hold(&keeper, "b"));
    keeper.shutdown(LIMIT).await.unwrap();
    assert_eq!(lease.releases(), 2);
    assert!(!dropped.is_held());
    assert_eq!(dropped.lost().await, LossReason::Closed);
    drop(dropped);
    assert_eq!(lease.releases(), 2, "a dropped guard released again");
    assert_eq!(released.release().await.unwrap(), Released::AlreadyLost);
}

#[tokio::test(start_paused = true)]
async fn what_the_store_does_not_confirm_is_told_in_time() {
    let (lease, keeper) = keeper();
    lease.release_answers(Answer::Never);
    let guard = hold(&keeper, "k");
    let start = Instant::now();
    let error = keeper.shutdown(LIMIT).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Unavailable, "{error}");
    assert!(error.to_string().contains("1 releases"), "{error}");
    assert!(start.elapsed() < LIMIT + Duration::from_millis(10));
    assert!(!guard.is_held());
}

#[tokio::test(start_paused = true)]
async fn a_release_under_way_is_waited_for() {
    let (lease, keeper) = keeper();
    lease.release_answers(Answer::After(Duration::from_secs(2)));
    drop(hold(&keeper, "k"));
    let start = Instant::now();
    keeper.shutdown(LIMIT).await.unwrap();
    assert!(start.elapsed() >= Duration::from_secs(2), "it was not");
}

#[tokio::test(start_paused = true)]
async fn a_grant_that_comes_during_a_shutdown_is_given_back() {
    let (lease, keeper) = keeper();
    let mut claim = claim(&keeper, "k");
    let sent = claim.sending();
    keeper.shutdown(LIMIT).await.unwrap();
    let token = lock_core::FencingToken::from_grant(1).unwrap();
    assert!(claim.granted(token, sent, TTL).is_none());
    keeper.shutdown(LIMIT).await.unwrap();
    assert_eq!(lease.releases(), 1);
    let late = keeper.claim(&LockRequest::exclusive("k").unwrap());
    assert_eq!(late.unwrap_err().kind(), ErrorKind::Closed);
}
