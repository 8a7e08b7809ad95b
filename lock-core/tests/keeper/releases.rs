//! Takes of a key that the same client is still releasing.

use std::sync::Arc;
use std::time::Duration;

use crate::support::{Answer, TTL, hold, keeper};
use lock_core::backend::Keeper;
use lock_core::{FencingToken, LockGuard, LockRequest};
use tokio::time::Instant;

/// Returns the time until an acquisition begins.
async fn begins_after(keeper: &Keeper, request: &LockRequest) -> Duration {
    let start = Instant::now();
    // Nothing is waited for after the begin.
    let begin = async |_request| Ok(None);
    let outcome = keeper.acquiring(request.clone(), begin).await;
    assert!(outcome.expect("it only begins").is_none());
    start.elapsed()
}

fn exclusive(key: &str) -> LockRequest {
    let request = LockRequest::exclusive(key).expect("a key");
    request.without_waiting()
}

fn take(keeper: &Keeper, request: &LockRequest) -> LockGuard {
    let mut claim = keeper.claim(request).expect("a claim");
    let sent = claim.sending();
    let token = FencingToken::from_grant(1).expect("in range");
    claim.granted(token, sent, TTL).expect("in time")
}

#[tokio::test(start_paused = true)]
async fn a_try_begins_when_the_release_of_its_client_has_ended() {
    let (lease, keeper) = keeper();
    let second = Duration::from_secs(1);
    lease.release_answers(Answer::After(second));
    let now = Duration::ZERO;
    drop(hold(&keeper, "k"));
    let ended = second..second + Duration::from_millis(3);
    assert_eq!(begins_after(&keeper, &exclusive("other")).await, now);
    let waits = exclusive("k").waiting_at_most(second);
    assert_eq!(begins_after(&keeper, &waits).await, now);
    assert!(ended.contains(&begins_after(&keeper, &exclusive("k")).await));
    assert_eq!(begins_after(&keeper, &exclusive("k")).await, now);

    let explicit = hold(&keeper, "k");
    let request = exclusive("k");
    let (released, began) = tokio::join!(explicit.release(), begins_after(&keeper, &request));
    assert!(released.is_ok() && ended.contains(&began), "{began:?}");

    let mut cancelled = keeper.claim(&exclusive("k")).unwrap();
    cancelled.sending();
    drop(cancelled);
    assert!(ended.contains(&begins_after(&keeper, &exclusive("k")).await));
}

#[tokio::test(start_paused = true)]
async fn readers_do_not_wait_for_the_releases_of_readers() {
    let (lease, _) = keeper();
    lease.release_answers(Answer::After(Duration::from_secs(1)));
    let capabilities = lock_core::Capabilities::new("scripted").with_shared();
    let keeper = Keeper::in_process(capabilities, lease);
    let shared = LockRequest::shared("k").unwrap().without_waiting();
    drop(take(&keeper, &shared));
    assert_eq!(begins_after(&keeper, &shared).await, Duration::ZERO);
    assert!(begins_after(&keeper, &exclusive("k")).await >= Duration::from_secs(1));
}

#[tokio::test(start_paused = true)]
async fn a_release_that_is_never_answered_holds_a_try_up_for_as_long_as_a_request() {
    let (lease, keeper) = keeper();
    lease.release_answers(Answer::Never);
    drop(hold(&keeper, "k"));
    let began = begins_after(&keeper, &exclusive("k")).await;
    let limit = Duration::from_secs(2);
    assert!((limit..limit * 2).contains(&began), "{began:?}");
}

/// The renewal task may sleep for hours until the next renewal. It must not keep the client alive.
#[tokio::test(start_paused = true)]
async fn a_client_goes_with_its_last_hold() {
    let (lease, keeper) = keeper();
    let guard = hold(&keeper, "k");
    drop(keeper);
    tokio::task::yield_now().await;
    assert!(guard.is_held(), "a hold outlives its client");
    assert!(guard.release().await.is_ok());
    assert_eq!(Arc::strong_count(&lease), 1, "the client is kept");
}
