//! Renewal and loss, on paused time.

use std::sync::Arc;
use std::time::Duration;

use crate::support::{Answer, ScriptedLease, TTL, hold, hold_for, keeper};
use lock_core::backend::{Clock, Keeper, KeeperRuntime, Released};
use lock_core::{Capabilities, DistributedLockExt, LockGuard, LossReason, MemoryLock, TTL_RANGE};
use tokio::runtime::Handle;
use tokio::time::{Instant, advance, sleep};

/// Time by which a hold ends for its holder before it expires on the store.
pub(crate) const MARGIN: Duration = Duration::from_millis(350);

pub(crate) async fn lost_after(guard: &LockGuard, start: Instant) -> (LossReason, Duration) {
    let reason = guard.lost().await;
    assert!(!guard.is_held());
    (reason, start.elapsed())
}

pub(crate) fn assert_about(actual: Duration, expected: Duration) {
    let late = actual.saturating_sub(expected);
    assert!(
        actual >= expected && late <= Duration::from_millis(2),
        "{actual:?}, not {expected:?}"
    );
}

#[tokio::test(start_paused = true)]
async fn a_hold_is_renewed_at_a_third_of_its_ttl_for_ever() {
    let (lease, keeper) = keeper();
    let guard = hold(&keeper, "k");
    sleep(TTL * 10 + TTL / 6).await;
    assert!(guard.is_held());
    assert_eq!(lease.renewals(), 30);
}

#[tokio::test(start_paused = true)]
async fn a_renewal_that_hangs_ends_the_hold_at_its_deadline() {
    let (lease, keeper) = keeper();
    lease.renewal_answers(Answer::Never);
    let start = Instant::now();
    let guard = hold(&keeper, "k");
    sleep(TTL - MARGIN - Duration::from_millis(1)).await;
    assert!(guard.is_held(), "lost early");
    let (reason, after) = lost_after(&guard, start).await;
    assert_eq!(reason, LossReason::Expired);
    assert_about(after, TTL - MARGIN);
}

#[tokio::test(start_paused = true)]
async fn failed_renewals_are_repeated_until_one_succeeds() {
    let (lease, keeper) = keeper();
    lease.renewal_answers(Answer::Error);
    let guard = hold(&keeper, "k");
    sleep(TTL * 9 / 10).await;
    assert!(
        lease.renewals() > 3,
        "gave up after {} renewals",
        lease.renewals()
    );
    lease.renewal_answers(Answer::Yes);
    sleep(TTL * 2).await;
    assert!(guard.is_held());
}

#[tokio::test(start_paused = true)]
async fn a_renewal_that_hangs_once_is_tried_again() {
    let (lease, keeper) = keeper();
    lease.renewal_answers(Answer::Never);
    let guard = hold(&keeper, "k");
    sleep(TTL / 3 + Duration::from_millis(1)).await;
    assert_eq!(lease.renewals(), 1);
    lease.renewal_answers(Answer::Yes);
    sleep(TTL * 2).await;
    assert!(guard.is_held(), "one renewal hung, and there was no other");
}

#[tokio::test(start_paused = true)]
async fn a_keeper_that_stood_still_renews_nothing_that_has_expired() {
    let (lease, keeper) = keeper();
    let guard = hold(&keeper, "k");
    advance(TTL * 2).await;
    sleep(TTL).await;
    assert_eq!(lease.renewals(), 0, "renewed after its deadline");
    assert!(!guard.is_held());
}

#[tokio::test(start_paused = true)]
async fn validity_counts_from_when_the_renewal_was_sent() {
    let (lease, keeper) = keeper();
    let delay = Duration::from_secs(8);
    lease.renewal_answers(Answer::After(delay));
    let start = Instant::now();
    let guard = hold(&keeper, "k");
    sleep(TTL / 3 + delay + Duration::from_millis(10)).await;
    lease.renewal_answers(Answer::Never);
    let (_, after) = lost_after(&guard, start).await;
    assert_about(after, TTL / 3 + TTL - MARGIN);
}

/// In real time, since the test measures timers.
#[test]
fn a_loss_is_told_before_the_store_opens_even_with_the_shortest_ttl() {
    lock_testkit::steady(async || {
        let ttl = *TTL_RANGE.start();
        let lease = Arc::<ScriptedLease>::default();
        lease.renewal_answers(Answer::Never);
        let keeper_runtime = KeeperRuntime::thread().unwrap();
        let keeper = Keeper::new(Capabilities::new("scripted"), lease, keeper_runtime);
        let mut late = Vec::new();
        for _ in 0..40 {
            let opens = Clock::Boot.now().plus(ttl);
            let guard = hold_for(&keeper, "k", ttl);
            assert_eq!(guard.lost().await, LossReason::Expired);
            let told = Clock::Boot.now();
            lock_testkit::assert_excluded!(!guard.is_held());
            late.extend((told > opens).then(|| told.since(opens)));
        }
        // A busy machine delays some timers.
        assert!(late.len() <= 8, "{} of 40 told late: {late:?}", late.len());
    });
}

#[tokio::test(start_paused = true)]
async fn a_definite_no_ends_the_hold_at_once() {
    let (lease, keeper) = keeper();
    lease.renewal_answers(Answer::No);
    let start = Instant::now();
    let (reason, after) = lost_after(&hold(&keeper, "k"), start).await;
    assert_eq!(reason, LossReason::Removed);
    assert_about(after, TTL / 3);
}

#[tokio::test(start_paused = true)]
async fn a_stalled_program_finds_its_hold_expired_and_never_gets_it_back() {
    let (lease, keeper) = keeper();
    let guard = hold(&keeper, "k");
    advance(TTL * 2).await;
    lock_testkit::assert_excluded!(!guard.is_held(), "the first look after the stall must tell");
    assert_eq!(guard.remaining(), Duration::ZERO);
    sleep(TTL * 2).await;
    lock_testkit::assert_excluded!(!guard.is_held(), "came back from the dead");
    assert_eq!(lease.renewals(), 0, "renewed after the loss");
    assert_eq!(guard.release().await.unwrap(), Released::AlreadyLost);
}

#[tokio::test(start_paused = true)]
async fn a_hung_renewal_does_not_hold_a_release_up() {
    let (lease, keeper) = keeper();
    lease.renewal_answers(Answer::Never);
    let guard = hold(&keeper, "k");
    sleep(TTL / 2).await;
    let start = Instant::now();
    assert_eq!(guard.release().await.unwrap(), Released::Released);
    assert_eq!(start.elapsed(), Duration::ZERO);
}

#[tokio::test(start_paused = true)]
async fn a_renewal_that_hangs_for_a_released_hold_delays_nobody_else() {
    let (lease, keeper) = keeper();
    lease.renewal_answers(Answer::Never);
    let slow = hold(&keeper, "slow");
    sleep(TTL / 3 + Duration::from_millis(1)).await;
    assert_eq!(lease.renewals(), 1);
    drop(slow);
    // The keeper task wakes next for a hold that is gone by then. After that it waits only for the
    // unanswered renewal.
    drop(hold_for(&keeper, "gone", Duration::from_millis(60)));
    sleep(Duration::from_millis(40)).await;

    let quick = Duration::from_millis(90);
    let start = Instant::now();
    let guard = hold_for(&keeper, "quick", quick);
    let (reason, after) = lost_after(&guard, start).await;
    assert_eq!(reason, LossReason::Expired);
    assert!(after <= quick, "told after {after:?} of {quick:?}");
    assert!(lease.renewals() > 1, "nobody tried to renew it");
}

#[tokio::test(start_paused = true)]
async fn nothing_is_renewed_after_the_release() {
    let (lease, keeper) = keeper();
    lease.renewal_answers(Answer::After(Duration::from_secs(3)));
    let guard = hold(&keeper, "k");
    sleep(TTL / 3 + Duration::from_secs(1)).await;
    assert_eq!(lease.renewals(), 1);
    drop(guard);
    sleep(TTL * 3).await;
    assert_eq!(lease.renewals(), 1);
}

#[tokio::test(start_paused = true)]
async fn holds_that_are_due_together_are_renewed_together() {
    let (lease, keeper) = keeper();
    let guards: Vec<_> = (0..50)
        .map(|number| hold(&keeper, &format!("k{number}")))
        .collect();
    sleep(TTL / 2).await;
    assert_eq!(*lease.renewals.lock().unwrap(), [50]);
    assert!(guards.iter().all(LockGuard::is_held));
}

#[tokio::test(start_paused = true)]
async fn holds_that_are_due_in_a_moment_are_renewed_as_well() {
    let (lease, keeper) = keeper();
    let mut guards = Vec::new();
    for number in 0..50 {
        guards.push(hold(&keeper, &format!("k{number}")));
        sleep(TTL / 300 / 25).await;
    }
    sleep(TTL / 2).await;
    let renewals = lease.renewals.lock().unwrap().clone();
    assert_eq!(renewals.iter().sum::<usize>(), 50);
    assert!(renewals.len() <= 3, "{renewals:?}");
    assert!(guards.iter().all(LockGuard::is_held));
}

#[tokio::test(start_paused = true)]
async fn a_loss_that_the_backend_reports_is_told_to_every_waiter() {
    let (_, keeper) = keeper();
    let mut claim = crate::support::claim(&keeper, "k");
    let loss = claim.loss();
    let sent = claim.sending();
    let token = lock_core::FencingToken::from_grant(1).unwrap();
    let guard = claim.granted(token, sent, TTL).expect("in time");
    let watch = guard.watch();
    let start = Instant::now();
    let (first, second, ()) = tokio::join!(guard.lost(), watch.lost(), async {
        loss.lost(LossReason::Removed);
    });
    assert_eq!((first, second), (LossReason::Removed, LossReason::Removed));
    assert_eq!(start.elapsed(), Duration::ZERO, "told late");
}

#[tokio::test(start_paused = true)]
async fn a_watch_that_outlives_its_guard_is_told_so() {
    let (_, keeper) = keeper();
    let guard = hold(&keeper, "k");
    let watch = guard.watch();
    assert!(watch.is_held());
    drop(guard);
    assert!(!watch.is_held());
    assert_eq!(watch.lost().await, LossReason::Released);
}

#[tokio::test]
async fn modes_that_are_not_declared_are_refused_by_name() {
    let lease = std::sync::Arc::<crate::support::ScriptedLease>::default();
    let keeper = lock_core::backend::Keeper::in_process(Capabilities::new("scripted"), lease);
    let request = lock_core::LockRequest::shared("k").unwrap();
    let error = keeper.claim(&request).unwrap_err();
    assert_eq!(error.kind(), lock_core::ErrorKind::Unsupported);
    let request = lock_core::LockRequest::exclusive("k")
        .unwrap()
        .with_ttl(Duration::from_millis(9));
    let error = keeper.claim(&request).unwrap_err();
    assert!(error.to_string().contains("from 50 ms to 24 h"), "{error}");
    let locks = lock_core::MemoryLock::new();
    let zero = locks.permit("k", 0).await.unwrap_err();
    assert_eq!(zero.kind(), lock_core::ErrorKind::Config);
}

#[tokio::test(start_paused = true)]
async fn holds_of_a_runtime_share_a_task_also_one_after_the_other() {
    let locks = MemoryLock::new();
    for _ in 0..100 {
        let guard = locks.lock("k").await.expect("free");
        // The task plans the renewal, and sleeps.
        tokio::task::yield_now().await;
        guard.release().await.expect("held");
    }
    let alive = Handle::current().metrics().num_alive_tasks();
    assert!(alive <= 1, "{alive} tasks after 100 holds");
}
