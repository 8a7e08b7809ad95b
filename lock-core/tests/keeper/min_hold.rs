//! Keys that stay closed for a minimum hold, on paused time.

use std::sync::Arc;
use std::time::Duration;

use lock_core::backend::{Keeper, Released};
use lock_core::{
    Capabilities, DistributedLock, DistributedLockExt, ErrorKind, FencingToken, HandOff, LockGuard,
    LockRequest, LossReason, MemoryLock, Mode, TTL_RANGE,
};
use tokio::time::{Instant, advance, sleep};

use crate::support::{Answer, ScriptedLease, TTL};

const MINUTE: Duration = Duration::from_secs(60);

fn request(minimum: Duration) -> LockRequest {
    let request = LockRequest::exclusive("k").expect("a key");
    request.with_ttl(TTL).holding_at_least(minimum)
}

fn keeper() -> (Arc<ScriptedLease>, Keeper) {
    let lease = Arc::<ScriptedLease>::default();
    let capabilities = Capabilities::new("scripted")
        .with_lock_delay(*TTL_RANGE.end())
        .with_min_hold(*TTL_RANGE.end());
    let keeper = Keeper::in_process(capabilities, lease.clone());
    (lease, keeper)
}

/// Returns a hold that the store granted just now, for the requested ttl.
fn hold(keeper: &Keeper, request: &LockRequest) -> LockGuard {
    let mut claim = keeper.claim(request).expect("a claim");
    let (sent, ttl) = (claim.sending(), claim.id().store_ttl());
    let token = FencingToken::from_grant(1).expect("in range");
    claim.granted(token, sent, ttl).expect("granted in time")
}

#[tokio::test(start_paused = true)]
async fn a_guard_has_the_ttl_only_and_renewals_ask_for_what_is_left() {
    let (lease, keeper) = keeper();
    let guard = hold(&keeper, &request(MINUTE));
    assert!(guard.remaining() <= TTL && guard.remaining() > TTL * 9 / 10);
    sleep(TTL * 3 / 2).await;
    assert!(guard.remaining() <= TTL && guard.remaining() > TTL / 2);
    let asked = lease.asked();
    let (first, last) = (asked[0], *asked.last().expect("renewals"));
    assert!(first > TTL && first <= MINUTE - TTL / 3, "{asked:?}");
    assert_eq!(last, TTL, "the rest of the minimum is shorter: {asked:?}");
}

#[tokio::test(start_paused = true)]
async fn a_release_shortens_the_hold_and_the_end_of_the_minimum_releases_it() {
    for is_dropped in [false, true] {
        let (lease, keeper) = keeper();
        let guard = hold(&keeper, &request(MINUTE));
        sleep(MINUTE / 4).await;
        let watch = guard.watch();
        let began = Instant::now();
        match is_dropped {
            false => assert_eq!(guard.release().await.unwrap(), Released::Released),
            true => drop(guard),
        }
        assert!(!watch.is_held());
        assert_eq!(began.elapsed(), Duration::ZERO, "the rest was waited for");
        sleep(MINUTE * 3 / 4 - Duration::from_secs(1)).await;
        assert_eq!(lease.shortened(), [MINUTE * 3 / 4]);
        assert_eq!(lease.releases(), 0);
        sleep(Duration::from_secs(2)).await;
        assert_eq!(lease.releases(), 1);
        sleep(10 * MINUTE).await;
        assert_eq!((lease.shortened().len(), lease.releases()), (1, 1));
    }
}

#[tokio::test(start_paused = true)]
async fn a_hold_beyond_its_minimum_is_released_at_once() {
    let (lease, keeper) = keeper();
    let guard = hold(&keeper, &request(MINUTE));
    sleep(MINUTE + Duration::from_millis(1)).await;
    assert_eq!(guard.release().await.unwrap(), Released::Released);
    assert_eq!((lease.shortened().len(), lease.releases()), (0, 1));
}

#[tokio::test(start_paused = true)]
async fn a_shortening_without_an_answer_is_an_error_and_is_repeated() {
    let (lease, keeper) = keeper();
    let guard = hold(&keeper, &request(MINUTE));
    lease.release_answers(Answer::Error);
    let error = guard.release().await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Unavailable);
    sleep(MINUTE / 4).await;
    assert!(lease.shortened().len() > 5, "{:?}", lease.shortened());
    lease.release_answers(Answer::Yes);
    sleep(MINUTE / 4).await;
    let shortened = lease.shortened();
    assert!(*shortened.last().expect("repeated") < MINUTE * 3 / 4 + Duration::from_secs(2));
    sleep(MINUTE).await;
    assert_eq!((lease.shortened(), lease.releases()), (shortened, 1));
}

#[tokio::test(start_paused = true)]
async fn a_hold_that_is_not_there_was_lost() {
    let (lease, keeper) = keeper();
    let guard = hold(&keeper, &request(MINUTE));
    lease.release_answers(Answer::No);
    assert_eq!(guard.release().await.unwrap(), Released::AlreadyLost);
}

#[tokio::test(start_paused = true)]
async fn every_end_keeps_the_key_closed_and_no_longer() {
    for end in 0..5 {
        let locks = MemoryLock::new();
        let client = locks.new_client();
        let began = Instant::now();
        let mut request = request(MINUTE);
        if end == 4 {
            request = request.holding_at_most(TTL / 2);
        }
        let guard = client.acquire(request).await.unwrap().unwrap();
        match end {
            0 => assert_eq!(guard.release().await.unwrap(), Released::Released),
            1 => drop(guard),
            2 => client.shutdown(TTL).await.unwrap(),
            3 => {
                advance(TTL).await;
                assert_eq!(guard.lost().await, LossReason::Expired);
            }
            _ => assert_eq!(guard.lost().await, LossReason::TooLong),
        }
        assert!(locks.try_lock("k").await.unwrap().is_none());
        let next = locks.lock("k").await.unwrap();
        assert_eq!(began.elapsed(), MINUTE, "end {end}");
        drop(next);
    }
}

#[tokio::test(start_paused = true)]
async fn a_minimum_and_a_lock_delay_end_with_the_later_of_both() {
    for (minimum, delay) in [(MINUTE, TTL), (TTL, MINUTE)] {
        let locks = MemoryLock::new();
        let request = request(minimum).with_lock_delay(delay);
        let limit = TTL / 2;
        let guard = locks.acquire(request.clone().holding_at_most(limit)).await;
        let began = Instant::now();
        assert_eq!(guard.unwrap().unwrap().lost().await, LossReason::TooLong);
        drop(locks.lock("k").await.unwrap());
        assert_eq!(began.elapsed(), minimum.max(limit + delay));
        // What is given back has no lock delay.
        let guard = locks.acquire(request).await.unwrap().unwrap();
        let began = Instant::now();
        drop(guard);
        drop(locks.lock("k").await.unwrap());
        assert_eq!(began.elapsed(), minimum);
    }
}

#[tokio::test(start_paused = true)]
async fn nothing_is_handed_on_or_shared_with_a_minimum() {
    for mode in [Mode::Exclusive, Mode::Shared, Mode::permit(1).unwrap()] {
        let store = MemoryLock::new();
        let locks = HandOff::new(Arc::new(store.clone()), MINUTE);
        let mut kept = request(MINUTE);
        kept.mode = mode;
        let first = locks.acquire(kept.clone()).await.unwrap().unwrap();
        let began = Instant::now();
        let (second, released) = tokio::join!(locks.lock("k"), first.release());
        assert_eq!(released.unwrap(), Released::Released);
        assert_eq!(began.elapsed(), MINUTE, "{mode:?}");
        // Two that want the same wait together, and each has a grant and a minimum of its own.
        let take = async || drop(locks.acquire(kept.clone()).await.unwrap().unwrap());
        tokio::join!(take(), take(), async { drop(second) });
        let claims = if mode == Mode::Shared { 2 } else { 1 };
        assert_eq!(store.claims().len(), claims, "{mode:?}");
        let last = locks.lock("k").await.unwrap();
        let times = if mode == Mode::Shared { 2 } else { 3 };
        assert_eq!(began.elapsed(), MINUTE * times, "{mode:?}");
        drop(last);
    }
}

#[tokio::test(start_paused = true)]
async fn a_shutdown_waits_for_no_minimum() {
    let (lease, keeper) = keeper();
    let guard = hold(&keeper, &request(MINUTE));
    let began = Instant::now();
    keeper.shutdown(TTL).await.unwrap();
    assert_eq!(began.elapsed(), Duration::ZERO);
    assert_eq!(guard.lost().await, LossReason::Closed);
    assert_eq!(lease.shortened(), [MINUTE]);
    drop(guard);
    sleep(2 * MINUTE).await;
    assert_eq!((lease.shortened().len(), lease.releases()), (1, 1));
}

#[tokio::test(start_paused = true)]
async fn a_minimum_that_a_backend_cannot_keep_names_the_limit() {
    let capabilities = Capabilities::new("scripted").with_min_hold(MINUTE);
    let keeper = Keeper::in_process(capabilities, Arc::<ScriptedLease>::default());
    let too_long = request(MINUTE + Duration::from_millis(1));
    let error = keeper.claim(&too_long).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Unsupported);
    assert!(error.to_string().contains("1 min at most"), "{error}");
    let _longest = keeper.claim(&request(MINUTE)).expect("in range");

    let capabilities = Capabilities::new("scripted").without_min_hold("use another");
    let keeper = Keeper::in_process(capabilities, Arc::<ScriptedLease>::default());
    let error = keeper.claim(&request(MINUTE)).unwrap_err();
    let says = "minimum hold 1 min is not supported by scripted: use another";
    assert!(error.to_string().contains(says), "{error}");
}
