//! Early renewals after the store reports a change of a key, on paused time.

use std::time::Duration;

use lock_core::{LockKey, LossReason};
use tokio::time::{Instant, sleep};

use crate::support::{Answer, TTL, hold, keeper};

#[tokio::test(start_paused = true)]
async fn a_removal_is_noticed_as_soon_as_the_key_changes() {
    let (lease, keeper) = keeper();
    let (guard, other) = (hold(&keeper, "k"), hold(&keeper, "other"));
    let recheck = keeper.recheck_handle();
    sleep(TTL / 3 + TTL / 10).await;
    lease.renewal_answers(Answer::No);
    let start = Instant::now();
    recheck.changed(&LockKey::new("k").unwrap());
    assert_eq!(guard.lost().await, LossReason::Removed);
    assert!(start.elapsed() < Duration::from_millis(10));
    assert!(other.is_held(), "asked for a key that did not change");
    recheck.all_changed();
    assert_eq!(other.lost().await, LossReason::Removed);
    assert!(start.elapsed() < Duration::from_millis(20));
}

#[tokio::test(start_paused = true)]
async fn a_change_of_what_is_still_ours_is_nothing() {
    let (lease, keeper) = keeper();
    let guard = hold(&keeper, "k");
    let change = || keeper.recheck_handle().changed(&LockKey::new("k").unwrap());
    change();
    sleep(TTL / 10).await;
    assert_eq!(lease.renewals(), 0, "its own take was taken for a change");
    sleep(TTL * 2).await;
    let before = lease.renewals();
    change();
    sleep(TTL).await;
    assert!(guard.is_held());
    assert!(
        (before + 3..=before + 4).contains(&lease.renewals()),
        "{}",
        lease.renewals()
    );
}

/// Asserts that a removal is noticed while the answer to renewal `number` is under way.
async fn is_noticed_during_renewal(number: u32) {
    let (lease, keeper) = keeper();
    let guard = hold(&keeper, "k");
    sleep(TTL / 3 * number - TTL / 6).await;
    lease.renewal_answers(Answer::After(Duration::from_secs(2)));
    sleep(TTL / 6 + Duration::from_secs(1)).await;
    lease.renewal_answers(Answer::No);
    let start = Instant::now();
    keeper
        .recheck_handle()
        .changed(&LockKey::new("k").expect("a key"));
    assert_eq!(guard.lost().await, LossReason::Removed);
    assert!(start.elapsed() < Duration::from_millis(1100));
}

#[tokio::test(start_paused = true)]
async fn a_change_during_a_renewal_is_asked_about_again() {
    is_noticed_during_renewal(2).await;
}

#[tokio::test(start_paused = true)]
async fn a_change_during_the_first_renewal_counts_too() {
    is_noticed_during_renewal(1).await;
}

#[tokio::test(start_paused = true)]
async fn an_alarm_does_not_keep_its_client() {
    let (lease, keeper) = keeper();
    let recheck = keeper.recheck_handle();
    drop(keeper);
    recheck.all_changed();
    assert_eq!(std::sync::Arc::strong_count(&lease), 1);
}
