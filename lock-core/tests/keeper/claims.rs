//! Cancellation and clean-up, on paused time.

use std::pin::pin;
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use crate::support::{Answer, TTL, claim, hold, keeper};
use lock_core::{
    DistributedLock, DistributedLockExt, ErrorKind, FencingToken, LockKey, LockRequest, LossReason,
    MemoryLock,
};
use tokio::time::{Instant, advance, sleep};

#[tokio::test(start_paused = true)]
async fn a_claim_is_released_only_while_a_request_is_unanswered() {
    let (lease, keeper) = keeper();
    drop(claim(&keeper, "never sent"));
    assert_eq!(lease.releases(), 0);

    let mut refused = claim(&keeper, "refused");
    refused.sending();
    refused.refused();
    drop(refused);
    assert_eq!(lease.releases(), 0);

    let mut unanswered = claim(&keeper, "unanswered");
    unanswered.sending();
    drop(unanswered);
    assert_eq!(lease.releases(), 1);

    // The refusal answers the second request; the first may still arrive.
    let mut resent = claim(&keeper, "resent");
    resent.sending();
    resent.sending();
    resent.refused();
    resent.sending();
    resent.refused();
    drop(resent);
    assert_eq!(lease.releases(), 2);
}

#[tokio::test(start_paused = true)]
async fn a_release_knows_whether_a_take_may_still_be_on_its_way() {
    let (lease, keeper) = keeper();
    let mut unanswered = claim(&keeper, "unanswered");
    unanswered.sending();
    drop(unanswered);
    assert!(!lease.last_release_was_of_a_grant());

    drop(hold(&keeper, "dropped"));
    assert!(lease.last_release_was_of_a_grant());
    hold(&keeper, "released").release().await.unwrap();
    assert!(lease.last_release_was_of_a_grant());

    // The first request may arrive after the release, which may use another connection.
    let mut resent = claim(&keeper, "resent");
    resent.sending();
    let sent = resent.sending();
    let token = FencingToken::from_grant(1).unwrap();
    drop(resent.granted(token, sent, TTL).expect("in time"));
    assert!(!lease.last_release_was_of_a_grant());

    let mut late = claim(&keeper, "late");
    let sent = late.sending();
    advance(TTL / 2).await;
    assert!(late.granted(token, sent, TTL).is_none());
    assert!(lease.last_release_was_of_a_grant());
    assert_eq!(lease.releases(), 5);
}

#[tokio::test(start_paused = true)]
async fn a_grant_that_comes_late_is_given_back() {
    let (lease, keeper) = keeper();
    let mut claim = claim(&keeper, "k");
    let sent = claim.sending();
    advance(TTL / 3 + Duration::from_millis(1)).await;
    assert!(
        claim
            .granted(FencingToken::from_grant(1).unwrap(), sent, TTL)
            .is_none()
    );
    assert_eq!(lease.releases(), 1);
}

#[tokio::test(start_paused = true)]
async fn a_grant_counts_from_when_its_request_was_sent() {
    let (_, keeper) = keeper();
    let mut claim = claim(&keeper, "k");
    let sent = claim.sending();
    advance(TTL / 6).await;
    let token = FencingToken::from_grant(1).unwrap();
    let guard = claim.granted(token, sent, TTL).expect("in time");
    let left = guard.remaining();
    assert!(left <= TTL * 5 / 6, "{left:?} of {TTL:?} remain");
}

#[tokio::test(start_paused = true)]
async fn a_waiter_whose_grant_expired_before_it_looked_lines_up_again() {
    let locks = MemoryLock::new();
    let first = locks.lock("k").await.unwrap();
    let request = LockRequest::exclusive("k").unwrap().with_ttl(TTL);
    let mut waiting = pin!(locks.acquire(request));
    let mut context = Context::from_waker(Waker::noop());
    assert!(waiting.as_mut().poll(&mut context).is_pending());
    drop(first);
    // The whole process stalls, so the waiter does not take its grant in time.
    advance(TTL * 2).await;
    let guard = waiting.await.unwrap().expect("no end");
    assert!(guard.is_held());
    let other = locks.try_lock("k").await.unwrap();
    lock_testkit::assert_excluded!(other.is_none(), "{guard:?} and {other:?}");
}

#[tokio::test(start_paused = true)]
async fn a_dropped_release_goes_on_in_the_background() {
    let (lease, keeper) = keeper();
    lease.release_answers(Answer::After(Duration::from_secs(1)));
    let guard = hold(&keeper, "k");
    {
        let mut release = pin!(guard.release());
        let mut context = Context::from_waker(Waker::noop());
        assert!(release.as_mut().poll(&mut context).is_pending());
    }
    sleep(Duration::from_secs(5)).await;
    assert_eq!(
        lease.releases(),
        2,
        "once by the caller, once in the background"
    );
}

#[tokio::test(start_paused = true)]
async fn an_unconfirmed_release_is_an_error_and_is_repeated_for_one_ttl() {
    let (lease, keeper) = keeper();
    lease.release_answers(Answer::Error);
    let guard = hold(&keeper, "k");
    let error = guard.release().await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Unavailable);
    sleep(TTL * 2).await;
    let attempts = lease.releases();
    assert!((20..100).contains(&attempts), "{attempts} attempts");
    sleep(TTL * 2).await;
    assert_eq!(lease.releases(), attempts, "tries for ever");
}

#[tokio::test(start_paused = true)]
async fn lost_work_is_dropped_and_never_polled_again() {
    let locks = MemoryLock::new();
    let key = LockKey::new("k").unwrap();
    let evicted = locks.clone();
    let request = LockRequest::exclusive("k").unwrap().with_ttl(TTL);
    let start = Instant::now();
    let work = locks.with_lock(request, async |_held| {
        evicted.evict(&key);
        std::future::pending::<()>().await;
    });
    let error = work.await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Lost);
    assert!(
        error.to_string().contains("removed on the store"),
        "{error}"
    );
    assert!(start.elapsed() <= TTL / 3 + Duration::from_millis(2));
}

#[tokio::test(start_paused = true)]
async fn work_that_stalls_past_its_lease_is_not_polled_again() {
    let locks = MemoryLock::new();
    let request = LockRequest::exclusive("k").unwrap().with_ttl(TTL);
    let mut resumed = false;
    let outcome = locks
        .with_lock(request, async |_held| {
            // The whole process stalls, so no renewal runs.
            advance(TTL * 2).await;
            resumed = true;
        })
        .await;
    assert_eq!(outcome.unwrap_err().kind(), ErrorKind::Lost);
    assert!(!resumed);
}

#[tokio::test(start_paused = true)]
async fn work_whose_last_step_outlasts_the_lock_was_not_done_under_it() {
    let locks = MemoryLock::new();
    let request = LockRequest::exclusive("k").unwrap().with_ttl(TTL);
    let other = locks.clone();
    let outcome = locks
        .with_lock(request, async |_held| {
            // In one poll: no task checks the clock in between, and another task takes the lock.
            let mut stalling = pin!(advance(TTL * 2));
            let mut context = Context::from_waker(Waker::noop());
            while stalling.as_mut().poll(&mut context).is_pending() {}
            let mut trying = pin!(other.try_lock("k"));
            let tried = trying.as_mut().poll(&mut context);
            assert!(matches!(tried, Poll::Ready(Ok(Some(_)))), "{tried:?}");
        })
        .await;
    let error = outcome.expect_err("the lock was lost");
    assert_eq!(error.kind(), ErrorKind::Lost);
    assert!(error.to_string().contains("before the work"), "{error}");
}

#[tokio::test(start_paused = true)]
async fn work_whose_lock_is_gone_when_it_is_released_is_in_doubt() {
    let locks = MemoryLock::new();
    let key = LockKey::new("k").unwrap();
    let request = LockRequest::exclusive("k").unwrap().with_ttl(TTL);
    let outcome = locks.with_lock(request, async |_held| locks.evict(&key));
    let error = outcome.await.expect_err("it was removed");
    assert_eq!(error.kind(), ErrorKind::Lost);
    assert!(error.to_string().contains("removed"), "{error}");
}

#[tokio::test]
async fn memory_forgets_the_names_that_nobody_uses() {
    let locks = MemoryLock::new();
    for number in 0..1000 {
        let name = format!("used once/{number}");
        drop(locks.lock(&name).await.unwrap());
        let limit = Duration::from_micros(10);
        let held = locks.lock_shared(&name).await.unwrap();
        assert!(locks.lock_within(&name, limit).await.unwrap().is_none());
        held.release().await.unwrap();
    }
    let all = format!("{locks:?}");
    assert!(!all.contains("used once"), "{all}");
}

#[tokio::test]
async fn a_guard_can_be_dropped_anywhere() {
    let locks = MemoryLock::new();
    let guard = locks.lock("thread").await.unwrap();
    std::thread::spawn(move || drop(guard)).join().unwrap();
    assert!(
        locks.try_lock("thread").await.unwrap().is_some(),
        "dropped outside a runtime"
    );

    let other = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .unwrap();
    let locks_there = locks.clone();
    let guard = std::thread::spawn(move || {
        let guard = other.block_on(async { locks_there.lock("runtime").await.unwrap() });
        drop(other);
        guard
    });
    drop(guard.join().unwrap());
    assert!(
        locks.try_lock("runtime").await.unwrap().is_some(),
        "dropped after its runtime"
    );
}

#[tokio::test]
async fn outside_a_runtime_the_error_says_what_is_missing() {
    let outside = std::thread::spawn(|| {
        let locks = MemoryLock::new();
        let mut acquire = locks.acquire(LockRequest::exclusive("k").unwrap());
        let outcome = acquire
            .as_mut()
            .poll(&mut Context::from_waker(Waker::noop()));
        match outcome {
            std::task::Poll::Ready(Err(error)) => error.to_string(),
            other => panic!("{other:?}"),
        }
    });
    let error = outside.join().unwrap();
    assert!(error.contains("no Tokio runtime is running"), "{error}");
}

#[tokio::test]
async fn a_hold_whose_runtime_is_gone_is_reported_lost_elsewhere() {
    let locks = MemoryLock::new();
    let elsewhere = locks.clone();
    let guard = std::thread::spawn(move || {
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build()
            .unwrap();
        let request = LockRequest::exclusive("k")
            .unwrap()
            .with_ttl(Duration::from_millis(100));
        runtime
            .block_on(elsewhere.acquire(request))
            .unwrap()
            .expect("free")
    });
    let guard = guard.join().unwrap();
    assert_eq!(guard.lost().await, LossReason::Expired);
    let next = locks
        .lock_within("k", Duration::from_secs(5))
        .await
        .unwrap();
    assert!(next.is_some_and(|next| next.token() > guard.token()));
}

#[test]
fn a_release_that_needs_a_runtime_that_is_gone_does_not_panic_in_drop() {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .unwrap();
    let (lease, keeper) = keeper();
    lease.release_answers(Answer::After(Duration::from_millis(1)));
    let guard = runtime.block_on(async { hold(&keeper, "k") });
    drop(runtime);
    drop(guard);
    assert_eq!(lease.releases(), 1);
}
