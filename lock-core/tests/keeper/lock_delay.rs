//! Keys that stay closed for a lock delay after a loss, on paused time.

use std::sync::Arc;
use std::time::Duration;

use lock_core::backend::{Keeper, Released};
use lock_core::{
    Capabilities, DistributedLock, DistributedLockExt, ErrorKind, FencingToken, HandOff, LockGuard,
    LockRequest, LossReason, MemoryLock, Mode, TTL_RANGE,
};
use tokio::task::JoinSet;
use tokio::time::{Instant, advance, sleep};

use crate::support::{Answer, ScriptedLease, TTL};

const LONGEST: Duration = *TTL_RANGE.end();
const DELAY: Duration = Duration::from_secs(7);

fn request() -> LockRequest {
    let request = LockRequest::exclusive("k").expect("a key");
    request.with_ttl(TTL).with_lock_delay(DELAY)
}

fn keeper() -> (Arc<ScriptedLease>, Keeper) {
    let lease = Arc::<ScriptedLease>::default();
    let capabilities = Capabilities::new("scripted").with_lock_delay(LONGEST);
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

/// Returns a lock whose holder stalled until the loss, and the time of the loss.
async fn lost(locks: &dyn DistributedLock, request: LockRequest) -> (LockGuard, Instant) {
    let guard = locks.acquire(request).await.expect("it answers");
    let guard = guard.expect("free");
    let ends = Instant::now() + guard.remaining();
    advance(TTL).await;
    assert_eq!(guard.lost().await, LossReason::Expired);
    (guard, ends)
}

#[tokio::test(start_paused = true)]
async fn a_guard_has_the_ttl_only_and_its_renewals_leave_the_delay_alone() {
    let (lease, keeper) = keeper();
    let guard = hold(&keeper, &request());
    assert!(guard.remaining() <= TTL && guard.remaining() > TTL * 9 / 10);
    sleep(TTL / 2).await;
    assert_eq!(lease.renewals(), 1, "renewed at a third of the ttl");
    assert!(guard.remaining() <= TTL && guard.remaining() > TTL * 2 / 3);
    lease.renewal_answers(Answer::Error);
    let left = guard.remaining();
    let start = Instant::now();
    assert_eq!(guard.lost().await, LossReason::Expired);
    assert!(start.elapsed() <= left + Duration::from_millis(1));
}

#[tokio::test(start_paused = true)]
async fn a_lost_key_stays_closed_until_its_delay_is_over() {
    for mode in [Mode::Exclusive, Mode::Shared, Mode::permit(1).unwrap()] {
        let locks = MemoryLock::new();
        let mut request = request();
        request.mode = mode;
        let (lost, ended) = lost(&locks, request).await;
        let next = locks.lock("k").await.unwrap();
        assert!(!lost.is_held());
        let closed = ended.elapsed();
        assert!(closed >= DELAY, "{mode:?}: open after {closed:?}");
        assert!(closed < DELAY + TTL / 10, "{mode:?}: closed for {closed:?}");
        drop(next);
    }
}

#[tokio::test(start_paused = true)]
async fn what_becomes_of_a_lost_guard_opens_the_key_no_earlier() {
    for fate in 0..3 {
        let locks = MemoryLock::new();
        let (guard, ended) = lost(&locks, request()).await;
        sleep(DELAY / 2).await;
        match fate {
            0 => drop(guard),
            1 => std::mem::forget(guard),
            _ => assert_eq!(guard.release().await.unwrap(), Released::AlreadyLost),
        }
        let next = locks.lock("k").await.unwrap();
        assert!(ended.elapsed() >= DELAY, "open after {:?}", ended.elapsed());
        drop(next);
    }
}

#[tokio::test(start_paused = true)]
async fn a_lost_hold_is_given_back_once_and_nobody_waits_for_that() {
    let (lease, keeper) = keeper();
    lease.renewal_answers(Answer::Never);
    let guards = [(); 3].map(|()| hold(&keeper, &request()));
    let [released, dropped, leaked] = guards;
    assert_eq!(leaked.lost().await, LossReason::Expired);
    let ended = Instant::now();
    std::mem::forget(leaked);
    drop(dropped);
    assert_eq!(released.release().await.unwrap(), Released::AlreadyLost);
    assert_eq!(ended.elapsed(), Duration::ZERO, "the delay was waited for");
    sleep(DELAY - Duration::from_millis(100)).await;
    assert_eq!(lease.releases(), 0);
    sleep(Duration::from_millis(200)).await;
    assert_eq!(lease.releases(), 3);
    sleep(10 * TTL).await;
    assert_eq!(lease.releases(), 3);
}

#[tokio::test(start_paused = true)]
async fn a_key_that_was_held_too_long_stays_closed_for_its_delay() {
    let locks = MemoryLock::new();
    let limit = TTL * 5 / 2;
    let stuck = locks.acquire(request().holding_at_most(limit)).await;
    let stuck = stuck.unwrap().unwrap();
    let start = Instant::now();
    let next = locks.lock("k").await.unwrap();
    assert_eq!(start.elapsed(), limit + DELAY);
    assert_eq!(stuck.lost().await, LossReason::TooLong);
    assert_eq!(stuck.release().await.unwrap(), Released::AlreadyLost);
    assert!(next.is_held());
}

#[tokio::test(start_paused = true)]
async fn what_is_given_back_while_it_is_held_opens_at_once() {
    let locks = MemoryLock::new();
    let client = locks.new_client();
    let start = Instant::now();
    for step in 0..4 {
        let guard = client.acquire(request()).await.unwrap().unwrap();
        match step {
            0 => assert_eq!(guard.release().await.unwrap(), Released::Released),
            1 => drop(guard),
            2 => {
                let mut holders = JoinSet::new();
                holders.spawn(async move {
                    let _held = guard;
                    panic!("a holder that panics drops its guard");
                });
                assert!(holders.join_next().await.is_some_and(|end| end.is_err()));
            }
            _ => client.shutdown(TTL).await.unwrap(),
        }
        assert!(locks.lock("k").await.unwrap().is_held());
    }
    assert_eq!(start.elapsed(), Duration::ZERO);
}

#[tokio::test(start_paused = true)]
async fn an_acquisition_that_came_to_nothing_delays_nobody() {
    let (lease, keeper) = keeper();
    let mut late = keeper.claim(&request()).unwrap();
    let sent = late.sending();
    sleep(TTL / 3 + Duration::from_millis(1)).await;
    let (ttl, token) = (late.id().store_ttl(), FencingToken::from_grant(1).unwrap());
    assert!(late.granted(token, sent, ttl).is_none());
    let mut waiting = keeper.claim(&request()).unwrap();
    waiting.sending();
    // As a store does when the session ends.
    waiting.loss().lost(LossReason::Removed);
    assert!(waiting.loss().is_over());
    drop(waiting);
    tokio::task::yield_now().await;
    assert_eq!(lease.releases(), 2);
}

#[tokio::test(start_paused = true)]
async fn a_backend_is_told_that_a_lost_hold_is_over_when_its_delay_is() {
    let (_lease, keeper) = keeper();
    let mut claim = keeper.claim(&request()).unwrap();
    let (sent, ttl, loss) = (claim.sending(), claim.id().store_ttl(), claim.loss());
    let token = FencingToken::from_grant(1).unwrap();
    let guard = claim.granted(token, sent, ttl).unwrap();
    loss.lost(LossReason::Expired);
    drop(guard);
    sleep(DELAY - Duration::from_millis(1)).await;
    assert!(!loss.is_over());
    sleep(Duration::from_millis(1)).await;
    assert!(loss.is_over());
}

#[tokio::test(start_paused = true)]
async fn what_was_removed_is_open() {
    let locks = MemoryLock::new();
    let request = request();
    let _removed = locks.acquire(request.clone()).await.unwrap().unwrap();
    assert!(locks.evict(&request.key));
    assert!(locks.try_lock("k").await.unwrap().is_some());
}

#[tokio::test(start_paused = true)]
async fn a_shutdown_neither_ends_a_delay_nor_waits_for_it() {
    let locks = MemoryLock::new();
    let client = locks.new_client();
    let guard = client.acquire(request()).await.unwrap().unwrap();
    let ends = Instant::now() + guard.remaining();
    // No task checks the hold between the stall and the shutdown.
    advance(TTL).await;
    let start = Instant::now();
    client.shutdown(TTL).await.unwrap();
    assert_eq!(start.elapsed(), Duration::ZERO);
    assert!(!guard.is_held());
    drop(guard);
    drop(locks.lock("k").await.unwrap());
    assert!(ends.elapsed() >= DELAY, "open after {:?}", ends.elapsed());
}

#[tokio::test(start_paused = true)]
async fn a_hold_is_handed_on_with_its_delay_to_those_who_asked_for_it() {
    let locks = HandOff::new(Arc::new(MemoryLock::new()), Duration::from_secs(3600));
    let first = locks.acquire(request()).await.unwrap().unwrap();
    let token = first.token().value();
    let (alike, released) = tokio::join!(locks.acquire(request()), first.release());
    released.unwrap();
    let alike = alike.unwrap().unwrap();
    assert_eq!(alike.token().value(), token + 1, "it was handed on");
    let other = request().with_lock_delay(DELAY * 2);
    let (other, released) = tokio::join!(locks.acquire(other), alike.release());
    released.unwrap();
    let other = other.unwrap().unwrap();
    assert!(
        other.token().value() > token + (1 << 13),
        "it was asked for"
    );
    other.release().await.unwrap();

    let first = locks.acquire(request()).await.unwrap().unwrap();
    let (next, released) = tokio::join!(locks.acquire(request()), first.release());
    released.unwrap();
    let next = next.unwrap().unwrap();
    let ends = Instant::now() + next.remaining();
    advance(TTL).await;
    assert!(!next.is_held());
    drop(next);
    drop(locks.lock("k").await.unwrap());
    assert!(ends.elapsed() >= DELAY, "open after {:?}", ends.elapsed());
}

#[tokio::test(start_paused = true)]
async fn a_delay_out_of_range_is_refused_with_advice() {
    let locks = MemoryLock::new();
    let longest = request().with_lock_delay(LONGEST - TTL);
    assert!(locks.acquire(longest).await.unwrap().is_some());
    let longer = request().with_lock_delay(LONGEST - TTL + Duration::from_nanos(1));
    let beyond = request().with_lock_delay(Duration::MAX);
    let (_lease, without) = crate::support::keeper();
    for (refused, advice) in [
        (locks.acquire(longer).await.err(), "may be 24 h at most"),
        (locks.acquire(beyond).await.err(), "may be 24 h at most"),
        (without.claim(&request()).err(), "leave it out"),
    ] {
        let error = refused.expect("out of range");
        assert_eq!(error.kind(), ErrorKind::Unsupported);
        assert!(error.to_string().contains(advice), "{error}");
    }
}
