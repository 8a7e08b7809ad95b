//! The health of a client: the round trip, the holds and the waiters.

use std::sync::Arc;
use std::time::Duration;

use lock_core::{
    DistributedLock, DistributedLockExt, ErrorKind, HandOff, LockGuard, MemoryLock, Result,
};
use tokio::task::{JoinSet, yield_now};
use tokio::time::{Instant, sleep};

use crate::support::{Answer, hold, keeper};

const SECOND: Duration = Duration::from_secs(1);

#[tokio::test(start_paused = true)]
async fn a_silent_store_is_unavailable_in_time() {
    let (store, keeper) = keeper();
    let _guard = hold(&keeper, "k");
    store.ping_answers(Answer::Never);
    let begun = Instant::now();
    let health = keeper.health().await;
    assert_eq!(begun.elapsed(), Duration::from_millis(2500));
    let error = health.latency.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Unavailable);
    assert_eq!(
        error.to_string(),
        "cannot ping on scripted: no answer within 2.5 s"
    );
    assert_eq!((health.holds, health.waiters), (Some(1), Some(0)));
}

#[tokio::test(start_paused = true)]
async fn the_latency_is_that_of_the_round_trip() {
    let (store, keeper) = keeper();
    store.ping_answers(Answer::After(SECOND));
    assert_eq!(keeper.health().await.latency.unwrap(), SECOND);
    store.ping_answers(Answer::Error);
    let error = keeper.health().await.latency.unwrap_err();
    assert!(
        error.is_retryable() && error.to_string().contains("scripted"),
        "{error}"
    );
    keeper.shutdown(SECOND).await.unwrap();
    let error = keeper.health().await.latency.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Closed);
}

#[tokio::test(start_paused = true)]
async fn the_oldest_renewal_is_that_of_the_hold_which_waits_longest() {
    let (store, keeper) = keeper();
    let oldest = async || keeper.health().await.oldest_renewal;
    assert_eq!(oldest().await, None);
    let _first = hold(&keeper, "first");
    sleep(4 * SECOND).await;
    let second = hold(&keeper, "second");
    assert_eq!(oldest().await, Some(4 * SECOND));
    // The first hold was renewed after 10 s, and the second one is not yet due.
    sleep(8 * SECOND).await;
    assert_eq!(store.renewals(), 1);
    assert_eq!(oldest().await, Some(8 * SECOND));
    store.renewal_answers(Answer::Error);
    sleep(8 * SECOND).await;
    assert_eq!(oldest().await, Some(16 * SECOND));
    second.release().await.unwrap();
    assert_eq!(oldest().await, Some(10 * SECOND), "the first hold");
}

#[tokio::test]
async fn every_waiter_counts_once_and_no_try_does() {
    let alone: Arc<dyn DistributedLock> = Arc::new(MemoryLock::new());
    let behind = Arc::new(HandOff::new(Arc::new(MemoryLock::new()), SECOND / 100));
    for locks in [alone, behind] {
        let guard = locks.lock("k").await.unwrap();
        let mut waiting: JoinSet<Result<LockGuard>> = JoinSet::new();
        for _ in 0..3 {
            let locks = Arc::clone(&locks);
            waiting.spawn(async move { locks.lock("k").await });
        }
        yield_now().await;
        assert!(locks.try_lock("k").await.unwrap().is_none());
        let health = locks.health().await;
        assert_eq!((health.holds, health.waiters), (Some(1), Some(3)));
        waiting.abort_all();
        while waiting.join_next().await.is_some() {}
        assert_eq!(locks.health().await.waiters, Some(0));
        guard.release().await.unwrap();
        assert_eq!(locks.health().await.holds, Some(0));
    }
}
