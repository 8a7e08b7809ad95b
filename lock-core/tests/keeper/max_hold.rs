//! Holds with a maximum time, on paused time.

use std::sync::Arc;
use std::time::Duration;

use crate::support::{Answer, TTL, keeper};
use lock_core::backend::{Claim, Keeper, Released};
use lock_core::{
    DistributedLock, DistributedLockExt, ErrorKind, FencingToken, HandOff, LockGuard, LockRequest,
    LossReason, MemoryLock,
};
use tokio::time::{Instant, sleep};

/// Maximum time of a hold, longer than its ttl, so that renewals are needed.
const LIMIT: Duration = Duration::from_secs(70);

fn request(limit: Duration) -> LockRequest {
    let request = LockRequest::exclusive("k").expect("a key");
    request.with_ttl(TTL).holding_at_most(limit)
}

fn hold(keeper: &Keeper, limit: Duration) -> LockGuard {
    let mut claim: Claim = keeper.claim(&request(limit)).expect("a claim");
    let sent = claim.sending();
    let token = FencingToken::from_grant(1).expect("in range");
    claim.granted(token, sent, TTL).expect("granted in time")
}

#[tokio::test(start_paused = true)]
async fn a_stuck_holder_is_told_and_its_lock_given_back_in_time() {
    let locks = MemoryLock::new();
    let start = Instant::now();
    let stuck = locks.acquire(request(LIMIT)).await.unwrap().unwrap();
    assert!(stuck.remaining() <= TTL);
    let next = locks.lock("k").await.unwrap();
    assert_eq!(start.elapsed(), LIMIT);
    lock_testkit::assert_excluded!(!stuck.is_held());
    assert!(next.is_held());
    assert_eq!(stuck.lost().await, LossReason::TooLong);
    assert_eq!(stuck.release().await.unwrap(), Released::AlreadyLost);
    assert!(next.is_held(), "released by somebody else");
}

#[tokio::test(start_paused = true)]
async fn a_guard_that_was_leaked_is_given_back_once() {
    let (lease, keeper) = keeper();
    std::mem::forget(hold(&keeper, LIMIT));
    sleep(LIMIT - Duration::from_millis(1)).await;
    assert_eq!((lease.renewals(), lease.releases()), (6, 0));
    sleep(10 * TTL).await;
    assert_eq!((lease.renewals(), lease.releases()), (6, 1));
}

#[tokio::test(start_paused = true)]
async fn the_limit_holds_although_renewals_hang_or_the_ttl_is_longer() {
    let (lease, keeper) = keeper();
    lease.renewal_answers(Answer::Never);
    let limit = TTL / 2;
    let guard = hold(&keeper, limit);
    let start = Instant::now();
    assert!(guard.remaining() <= limit);
    assert_eq!(guard.lost().await, LossReason::TooLong);
    assert_eq!(start.elapsed(), limit);
    sleep(TTL).await;
    assert_eq!(lease.releases(), 1);
}

#[tokio::test(start_paused = true)]
async fn who_is_done_before_notices_nothing() {
    let (lease, keeper) = keeper();
    let guard = hold(&keeper, LIMIT);
    sleep(TTL).await;
    assert_eq!(guard.release().await.unwrap(), Released::Released);
    sleep(LIMIT).await;
    assert_eq!(lease.releases(), 1);
}

#[tokio::test(start_paused = true)]
async fn a_client_that_is_shut_down_has_given_back_what_was_held_too_long() {
    let (lease, keeper) = keeper();
    let delay = Duration::from_secs(1);
    lease.release_answers(Answer::After(delay));
    let guard = hold(&keeper, LIMIT);
    sleep(LIMIT).await;
    assert!(!guard.is_held());
    let begin = Instant::now();
    keeper.shutdown(TTL).await.expect("confirmed");
    assert_eq!(begin.elapsed(), delay);
    assert_eq!(lease.releases(), 1);
}

#[tokio::test(start_paused = true)]
async fn each_guard_that_a_hold_is_handed_on_to_has_its_own_time() {
    let budget = Duration::from_secs(3600);
    let locks = HandOff::new(Arc::new(MemoryLock::new()), budget);
    let second = Duration::from_secs(1);
    let limited = request(10 * second);
    let first = locks.acquire(limited.clone()).await.unwrap().unwrap();
    sleep(6 * second).await;
    let (next, released) = tokio::join!(locks.acquire(limited), first.release());
    released.unwrap();
    let next = next.unwrap().unwrap();
    let start = Instant::now();
    let unlimited = LockRequest::exclusive("k").expect("a key").with_ttl(TTL);
    let (reason, last) = tokio::join!(next.lost(), locks.acquire(unlimited));
    assert_eq!(reason, LossReason::TooLong);
    assert_eq!(start.elapsed(), 10 * second);
    let last = last.unwrap().unwrap();
    sleep(10 * TTL).await;
    assert!(last.is_held(), "it has no limit");
}

#[tokio::test(start_paused = true)]
async fn a_limit_of_zero_is_refused_with_advice() {
    let refused = MemoryLock::new().acquire(request(Duration::ZERO)).await;
    let error = refused.expect_err("nobody can hold it");
    assert_eq!(error.kind(), ErrorKind::Config);
    assert!(
        error.to_string().contains("max_hold 0 s ends every hold"),
        "{error}"
    );
}
