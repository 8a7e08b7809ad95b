//! Conversions of holds, with scripted answers of the store.

use std::sync::Arc;
use std::time::Duration;

use lock_core::backend::Converted;
use lock_core::{
    DistributedLock, DistributedLockExt, Error, ErrorKind, FencingToken, HandOff, LockRequest,
    LossReason, MemoryLock, Mode, Owner,
};
use tokio::time::{Instant, sleep};

use crate::converting::{Converting, granted, held, held_for, unanswered};
use crate::support::TTL;

/// Asserts that the hold and the claim of the first conversion were released.
fn assert_both_released(store: &Converting) {
    let released = store.released();
    let claims = store.asked().swap_remove(0);
    assert!(claims.iter().all(|claim| released.contains(claim)));
}

#[tokio::test(start_paused = true)]
async fn an_unanswered_conversion_is_repeated_with_the_same_claim() {
    let (store, _keeper, guard) = held(Mode::Upgradeable);
    store.script([unanswered(), unanswered(), Some(Ok(granted()))]);
    let writer = guard.try_upgrade().await.expect("granted");
    assert_eq!(writer.token(), FencingToken::from_grant(7).unwrap());
    let asked = store.asked();
    assert!(asked.len() == 3 && asked.iter().all(|claims| claims == &asked[0]));
    drop(writer);
    assert_eq!(
        store.released(),
        [asked[0][1].clone()],
        "the old claim is gone"
    );
}

#[tokio::test(start_paused = true)]
async fn a_claim_that_may_still_replace_its_hold_is_not_released() {
    let (store, _keeper, guard) = held(Mode::Upgradeable);
    store.script([unanswered(), Some(Ok(Converted::Refused))]);
    let (guard, error) = guard.try_upgrade().await.expect_err("refused");
    assert_eq!(error.kind(), ErrorKind::Busy);
    assert!(guard.is_held());
    sleep(TTL * 2).await;
    // A release would open the key to others while the guard counts on the hold.
    assert!(store.released().is_empty());
    drop(guard);
    assert_eq!(store.released(), [store.asked()[0][0].clone()]);
}

#[tokio::test(start_paused = true)]
async fn an_interrupted_conversion_keeps_its_key_closed() {
    let minimum = Duration::from_secs(10);
    let request = LockRequest::upgradeable("k").unwrap().with_ttl(TTL);
    let (kept, delayed) = (
        request.clone().holding_at_least(minimum),
        request.with_lock_delay(minimum),
    );
    for (request, is_lost) in [(kept, false), (delayed, true)] {
        let (store, _keeper, guard) = held_for(&request);
        store.script([None]);
        let began = Instant::now();
        let limit = if is_lost { TTL } else { Duration::from_secs(1) };
        let interrupted = tokio::time::timeout(limit, guard.try_upgrade()).await;
        assert_eq!(interrupted.is_err(), !is_lost);
        let ended = began.elapsed();
        let closed = if is_lost { ended + minimum } else { minimum };
        let claims = store.asked().swap_remove(0);
        sleep(closed.saturating_sub(began.elapsed() + Duration::from_millis(50))).await;
        let early = store.released();
        assert!(
            !early.contains(&claims[0]) && !early.contains(&claims[1]),
            "{early:?}"
        );
        sleep(Duration::from_millis(200)).await;
        assert!(store.released().contains(&claims[1]));
    }
}

#[tokio::test(start_paused = true)]
async fn the_hold_of_an_interrupted_conversion_is_released_before_its_claim() {
    let (store, _keeper, guard) = held(Mode::Upgradeable);
    store.script([None]);
    let (guard, _) = guard.try_upgrade().await.expect_err("no answer");
    sleep(Duration::from_millis(1)).await;
    assert_eq!(
        store.released(),
        store.asked()[0],
        "while the caller has the guard"
    );
    drop(guard);
}

#[tokio::test(start_paused = true)]
async fn a_removal_during_an_unanswered_conversion_is_noticed() {
    let (store, _keeper, guard) = held(Mode::Upgradeable);
    store.script([None]);
    store.misses(true);
    let (watch, began) = (guard.watch(), Instant::now());
    let noticing = async {
        let reason = watch.lost().await;
        (reason, began.elapsed())
    };
    let (_, (reason, after)) = tokio::join!(guard.try_upgrade(), noticing);
    assert_eq!(reason, LossReason::Removed);
    assert!(after < TTL / 3 + Duration::from_secs(3), "{after:?}");
}

#[tokio::test(start_paused = true)]
async fn a_refused_hold_is_still_held() {
    let (store, _keeper, guard) = held(Mode::Upgradeable);
    store.script([Some(Ok(Converted::Refused))]);
    // The renewal that is due meanwhile does not find the hold.
    store.misses(true);
    let missing = async {
        store.missed().await;
        store.misses(false);
    };
    let (refused, ()) = tokio::join!(guard.try_upgrade(), missing);
    let (guard, error) = refused.expect_err("refused");
    assert_eq!(error.kind(), ErrorKind::Busy);
    assert!(guard.is_held());
    sleep(TTL * 2).await;
    assert!(guard.is_held(), "it is renewed again");
    assert!(store.released().is_empty());
}

#[tokio::test(start_paused = true)]
async fn a_hold_that_was_removed_during_a_refused_conversion_is_lost_soon() {
    let (store, _keeper, guard) = held(Mode::Upgradeable);
    store.script([Some(Ok(Converted::Refused))]);
    store.misses(true);
    let (guard, _) = guard.try_upgrade().await.expect_err("refused");
    let refused = Instant::now();
    assert_eq!(guard.lost().await, LossReason::Removed);
    // At once, and not only when the renewal is repeated, a second later.
    assert!(
        refused.elapsed() < Duration::from_millis(500),
        "{:?}",
        refused.elapsed()
    );
}

#[tokio::test(start_paused = true)]
async fn a_silent_store_ends_a_conversion_and_its_hold() {
    for mode in [Mode::Upgradeable, Mode::Exclusive] {
        let (store, _keeper, guard) = held(mode);
        store.script([None]);
        let (watch, began) = (guard.watch(), Instant::now());
        let error = match mode {
            Mode::Exclusive => guard.downgrade().await.expect_err("no answer"),
            _ => {
                let (guard, error) = guard.try_upgrade().await.expect_err("no answer");
                assert!(!guard.is_held());
                error
            }
        };
        assert_eq!(error.kind(), ErrorKind::Unavailable);
        assert!(!watch.is_held() && began.elapsed() < TTL);
        assert_both_released(&store);
    }
}

#[tokio::test(start_paused = true)]
async fn a_downgrade_ends_the_exclusive_hold_before_it_is_sent() {
    let (store, _keeper, guard) = held(Mode::Exclusive);
    store.script([Some(Ok(granted()))]);
    let watch = guard.watch();
    let looking = async {
        sleep(Duration::from_millis(5)).await;
        assert_eq!(store.asked().len(), 1);
        assert!(!watch.is_held(), "readers may hold the key by now");
    };
    let (reader, ()) = tokio::join!(guard.downgrade(), looking);
    assert!(reader.expect("granted").is_held());
}

#[tokio::test(start_paused = true)]
async fn a_conversion_with_an_unknown_outcome_ends_its_hold() {
    let (store, _keeper, guard) = held(Mode::Upgradeable);
    store.script([Some(Err(Error::new(ErrorKind::Backend, "scripted")))]);
    let (guard, error) = guard.try_upgrade().await.expect_err("an error");
    assert_eq!(error.kind(), ErrorKind::Backend);
    assert!(!guard.is_held(), "the new claim may have replaced it");
    sleep(Duration::from_millis(1)).await;
    assert_both_released(&store);
}

#[tokio::test(start_paused = true)]
async fn a_refusal_for_good_is_no_loss() {
    let (store, _keeper, guard) = held(Mode::Upgradeable);
    store.script([Some(Err(Error::new(ErrorKind::Denied, "scripted")))]);
    let (guard, error) = guard.try_upgrade().await.expect_err("denied");
    assert_eq!(error.kind(), ErrorKind::Denied);
    assert!(guard.is_held());
    assert!(
        error
            .to_string()
            .starts_with("cannot upgrade lock \"k\" on scripted")
    );
}

#[tokio::test(start_paused = true)]
async fn a_refused_downgrade_releases_what_an_earlier_request_may_have_won() {
    let (store, _keeper, guard) = held(Mode::Exclusive);
    let denied = Error::new(ErrorKind::Denied, "scripted");
    store.script([unanswered(), Some(Err(denied))]);
    let error = guard.downgrade().await.expect_err("denied");
    assert_eq!(error.kind(), ErrorKind::Denied);
    sleep(Duration::from_millis(1)).await;
    assert_both_released(&store);
}

#[tokio::test(start_paused = true)]
async fn a_shutdown_ends_a_conversion() {
    let (store, keeper, guard) = held(Mode::Upgradeable);
    store.script([None]);
    let shutting = async {
        sleep(Duration::from_millis(5)).await;
        keeper.shutdown(Duration::from_secs(1)).await
    };
    let (upgraded, shut) = tokio::join!(guard.try_upgrade(), shutting);
    shut.expect("confirmed");
    let (guard, error) = upgraded.expect_err("closed");
    assert_eq!(error.kind(), ErrorKind::Closed);
    assert!(!guard.is_held());
    assert_both_released(&store);
}

#[tokio::test(start_paused = true)]
async fn a_maximum_and_a_minimum_hold_go_on() {
    let (locks, other) = (MemoryLock::new(), MemoryLock::new());
    let request = LockRequest::upgradeable("k").unwrap();
    let limited = request.clone().holding_at_most(Duration::from_secs(9));
    let guard = locks.acquire(limited).await.unwrap().expect("free");
    sleep(Duration::from_secs(4)).await;
    let guard = guard.try_upgrade().await.expect("no readers");
    sleep(Duration::from_millis(4_900)).await;
    assert!(guard.is_held());
    sleep(Duration::from_millis(200)).await;
    assert_eq!(guard.lost().await, LossReason::TooLong);

    let kept = request.holding_at_least(Duration::from_secs(9));
    let guard = other.acquire(kept).await.unwrap().expect("free");
    sleep(Duration::from_secs(4)).await;
    drop(guard.try_upgrade().await.expect("no readers"));
    sleep(Duration::from_millis(4_900)).await;
    assert!(other.try_lock("k").await.unwrap().is_none());
    sleep(Duration::from_millis(200)).await;
    assert!(other.try_lock("k").await.unwrap().is_some());
}

#[tokio::test(start_paused = true)]
async fn the_grant_of_an_owner_keeps_its_mode() {
    let locks = MemoryLock::new();
    let request = LockRequest::upgradeable("k").unwrap();
    let request = request.for_owner(&Owner::new());
    let guard = locks.acquire(request.clone()).await.unwrap().expect("free");
    let inner = locks.acquire(request).await.unwrap().expect("its own");
    let (guard, error) = guard.try_upgrade().await.expect_err("two guards");
    assert_eq!(error.kind(), ErrorKind::Unsupported);
    assert!(guard.is_held() && inner.is_held());
}

#[tokio::test(start_paused = true)]
async fn waiters_of_the_process_follow_a_conversion() {
    let locks = HandOff::new(Arc::new(MemoryLock::new()), Duration::from_millis(10));
    let writer = locks.lock("k").await.unwrap();
    let mut reading = std::pin::pin!(locks.lock_shared("k"));
    let soon = || sleep(Duration::from_millis(30));
    tokio::select! {
        _ = &mut reading => panic!("beside a writer"),
        () = soon() => {}
    }
    let reader = writer.downgrade().await.expect("it is held");
    let other = reading.await.unwrap();
    let mut writing = std::pin::pin!(locks.lock("k"));
    tokio::select! {
        _ = &mut writing => panic!("beside readers"),
        () = soon() => {}
    }
    drop(reader);
    drop(other);
    let writer = writing.await.unwrap();
    let mut upgradeable = std::pin::pin!(locks.acquire(LockRequest::upgradeable("k").unwrap()));
    tokio::select! {
        _ = &mut upgradeable => panic!("beside a writer"),
        () = soon() => {}
    }
    drop(writer);
    let guard = upgradeable.await.unwrap().expect("no end");
    let mut reading = std::pin::pin!(locks.lock_shared("k"));
    let writer = guard.try_upgrade().await.expect("no readers");
    tokio::select! {
        _ = &mut reading => panic!("beside a writer"),
        () = soon() => {}
    }
    drop(writer);
    assert!(reading.await.unwrap().is_held());
}
