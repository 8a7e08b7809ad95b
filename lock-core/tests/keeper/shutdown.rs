//! The end of a client, on paused time.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use lock_core::backend::Released;
use lock_core::{
    DistributedLock, DistributedLockExt, ErrorKind, HandOff, LockRequest, LossReason, MemoryLock,
};
use tokio::task::JoinSet;
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
    let waited = start.elapsed();
    assert!(waited >= LIMIT, "given up after {waited:?}");
    assert!(waited < LIMIT + Duration::from_millis(10));
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

#[tokio::test(start_paused = true)]
async fn what_is_never_confirmed_is_not_called_so_when_the_ttl_is_over() {
    let (lease, keeper) = keeper();
    lease.release_answers(Answer::Error);
    drop(hold(&keeper, "dropped"));
    let _held = hold(&keeper, "held");
    let error = keeper.shutdown(TTL * 2).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Unavailable, "{error}");
    assert!(error.to_string().contains("2 releases"), "{error}");
}

#[tokio::test(start_paused = true)]
async fn what_was_not_confirmed_long_ago_is_over() {
    let (lease, keeper) = keeper();
    lease.release_answers(Answer::Error);
    drop(hold(&keeper, "k"));
    tokio::time::sleep(TTL * 2).await;
    keeper.shutdown(LIMIT).await.unwrap();
}

#[test]
fn a_hold_of_a_runtime_that_is_gone_is_released_from_here() {
    let runtime = || {
        let mut builder = tokio::runtime::Builder::new_current_thread();
        builder.enable_all().build().expect("a runtime")
    };
    let (lease, keeper) = keeper();
    let there = runtime();
    let guard = there.block_on(async { hold(&keeper, "k") });
    drop(there);
    runtime().block_on(keeper.shutdown(LIMIT)).unwrap();
    assert_eq!(lease.releases(), 1);
    assert!(!guard.is_held());
}

#[test]
fn a_shutdown_outside_a_runtime_is_refused_before_it_has_done_anything() {
    let (lease, keeper) = keeper();
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .unwrap();
    let guard = runtime.block_on(async { hold(&keeper, "k") });
    let mut shutdown = Box::pin(keeper.shutdown(LIMIT));
    let mut context = Context::from_waker(Waker::noop());
    let Poll::Ready(outcome) = shutdown.as_mut().poll(&mut context) else {
        panic!("it waits for nobody");
    };
    assert_eq!(outcome.unwrap_err().kind(), ErrorKind::Config);
    assert!(guard.is_held(), "ended, and never given back");
    runtime.block_on(keeper.shutdown(LIMIT)).unwrap();
    assert_eq!(lease.releases(), 1);
}

/// The shutdown may meet a hold at any step of the keeper's work.
#[tokio::test(flavor = "multi_thread")]
async fn no_hold_is_overlooked() {
    for round in 0..100 {
        let (_lease, keeper) = keeper();
        let guards: Vec<_> = (0..300)
            .map(|number| hold(&keeper, &format!("k{number}")))
            .collect();
        keeper.recheck_handle().all_changed();
        keeper.shutdown(LIMIT).await.unwrap();
        let held = guards.iter().filter(|guard| guard.is_held()).count();
        assert_eq!(held, 0, "round {round}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_waiter_that_was_handed_the_key_just_before_is_cut_off_too() {
    let locks = HandOff::new(Arc::new(MemoryLock::new()), Duration::from_secs(1));
    let first = locks.lock("k").await.unwrap();
    let mut waiting = Box::pin(locks.lock("k"));
    assert!(
        tokio::time::timeout(Duration::from_millis(1), &mut waiting)
            .await
            .is_err()
    );
    first.release().await.unwrap();
    locks.shutdown(LIMIT).await.unwrap();
    let error = waiting.await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Closed, "{error}");
}

/// Waiters of a process do so one after the other when their client is closed. The shutdown must
/// not count their attempts as unfinished work.
#[tokio::test(flavor = "multi_thread")]
async fn whoever_knocks_at_a_closed_client_is_nothing_that_is_left_of_it() {
    const KNOCKING: usize = 4;
    for round in 0..200 {
        let locks = MemoryLock::new();
        let open = Arc::new(AtomicBool::new(true));
        let mut tasks = JoinSet::new();
        for _ in 0..KNOCKING {
            let (locks, open) = (locks.clone(), Arc::clone(&open));
            tasks.spawn(async move {
                while open.load(Ordering::Relaxed) {
                    let _guard_or_closed = locks.try_lock("k").await;
                    tokio::task::yield_now().await;
                }
            });
        }
        let outcome = locks.shutdown(LIMIT).await;
        open.store(false, Ordering::Relaxed);
        assert!(outcome.is_ok(), "round {round}: {outcome:?}");
        tasks.join_all().await;
    }
}
