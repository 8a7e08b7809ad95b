//! Renewals that grant less than before, on paused time.

use std::time::Duration;

use crate::renewal::{MARGIN, assert_about, lost_after};
use crate::support::{Answer, TTL, hold, keeper};
use lock_core::LossReason;
use lock_core::backend::Clock;
use tokio::time::{Instant, advance, sleep};

/// Validity that a grant of 3 seconds gives to the guard.
const SHORT: Duration = Duration::from_millis(3_000 - 30 - 50);

#[tokio::test(start_paused = true)]
async fn a_renewal_that_grants_less_ends_the_hold_so_much_earlier() {
    let (lease, keeper) = keeper();
    lease.renewal_answers(Answer::For(Duration::from_secs(3)));
    let start = Instant::now();
    let guard = hold(&keeper, "k");
    // The new deadline also applies to a wait for the loss that began before the renewal.
    let silent = async {
        sleep(TTL / 3 + Duration::from_millis(1)).await;
        assert!(guard.remaining() <= SHORT, "{:?}", guard.remaining());
        lease.renewal_answers(Answer::Never);
    };
    let ((reason, after), ()) = tokio::join!(lost_after(&guard, start), silent);
    assert_eq!(reason, LossReason::Expired);
    assert_about(after, TTL / 3 + SHORT);
}

#[tokio::test(start_paused = true)]
async fn a_hold_is_renewed_at_a_third_of_what_was_granted_last() {
    let (lease, keeper) = keeper();
    lease.renewal_answers(Answer::For(Duration::from_secs(3)));
    let guard = hold(&keeper, "k");
    sleep(TTL / 3 + Duration::from_millis(3_500)).await;
    assert_eq!(lease.renewals(), 4);
    lease.renewal_answers(Answer::Yes);
    sleep(Duration::from_secs(1)).await;
    assert!(guard.remaining() > TTL * 9 / 10, "{:?}", guard.remaining());
    sleep(TTL).await;
    assert_eq!(lease.renewals(), 8);
    assert!(guard.is_held());
}

#[tokio::test(start_paused = true)]
async fn a_renewal_that_grants_nothing_ends_the_hold() {
    let (lease, keeper) = keeper();
    lease.renewal_answers(Answer::For(Duration::ZERO));
    let start = Instant::now();
    let (reason, after) = lost_after(&hold(&keeper, "k"), start).await;
    assert_eq!(reason, LossReason::Expired);
    assert_about(after, TTL / 3);
}

#[tokio::test(start_paused = true)]
async fn an_answer_to_an_earlier_request_changes_nothing_and_is_not_asked_for_all_the_time() {
    let (lease, keeper) = keeper();
    let before = Clock::Runtime.now();
    advance(Duration::from_secs(1)).await;
    let start = Instant::now();
    let guard = hold(&keeper, "k");
    for ttl in [Duration::from_secs(1), TTL * 10] {
        lease.renewal_answers(Answer::Since(before, ttl));
        sleep(TTL / 3 + Duration::from_millis(500)).await;
        let left = (TTL - MARGIN).saturating_sub(start.elapsed());
        assert_about(left, guard.remaining());
    }
    let (_, after) = lost_after(&guard, start).await;
    assert_about(after, TTL - MARGIN);
    assert!(lease.renewals() < 100, "{} renewals", lease.renewals());
}
