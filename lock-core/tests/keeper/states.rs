//! The states between held and lost, on paused time.

use std::pin::pin;
use std::time::Duration;

use crate::support::{Answer, TTL, hold, keeper};
use futures_util::StreamExt;
use lock_core::{HoldState, LossReason};
use tokio::time::{Instant, sleep};

const SECOND: Duration = Duration::from_secs(1);

#[tokio::test(start_paused = true)]
async fn a_hold_that_is_renewed_in_time_is_never_suspect() {
    let (_lease, keeper) = keeper();
    let guard = hold(&keeper, "k");
    let mut states = guard.watch().states();
    assert!(matches!(states.next().await, Some(HoldState::Held { .. })));
    let change = tokio::time::timeout(TTL * 10, states.next()).await;
    assert!(change.is_err(), "{change:?}");
    let HoldState::Held { remaining } = guard.state() else {
        panic!("{:?}", guard.state());
    };
    assert_eq!(remaining, guard.remaining());
}

#[tokio::test(start_paused = true)]
async fn a_renewal_that_is_not_answered_is_told_while_there_is_time_to_act() {
    let (lease, keeper) = keeper();
    lease.renewal_answers(Answer::Never);
    let start = Instant::now();
    let guard = hold(&keeper, "k");
    let mut states = guard.watch().states();
    assert!(matches!(states.next().await, Some(HoldState::Held { .. })));
    let suspect = states.next().await;
    // The renewal is due at a third of the ttl, and overdue at half of the ttl.
    let after = start.elapsed();
    assert!((TTL / 2..TTL / 2 + SECOND).contains(&after), "{after:?}");
    let Some(HoldState::Suspect { overdue, remaining }) = suspect else {
        panic!("{suspect:?}");
    };
    assert!(
        (TTL / 6..TTL / 6 + SECOND).contains(&overdue),
        "{overdue:?}"
    );
    assert!(
        (TTL / 2 - SECOND..=TTL / 2).contains(&remaining),
        "{remaining:?}"
    );
    assert!(guard.is_held() && guard.state().is_held());
    assert_eq!(
        states.next().await,
        Some(HoldState::Lost(LossReason::Expired))
    );
    assert!(!guard.is_held());
    assert_eq!(guard.state(), HoldState::Lost(LossReason::Expired));
    assert_eq!(states.next().await, None);
}

#[tokio::test(start_paused = true)]
async fn a_late_answer_takes_the_doubt_away_and_that_is_told_at_once() {
    let (lease, keeper) = keeper();
    lease.renewal_answers(Answer::Error);
    let guard = hold(&keeper, "k");
    let mut states = pin!(guard.watch().states());
    // Read through the `Stream` trait.
    let first = StreamExt::next(&mut states).await;
    assert!(matches!(first, Some(HoldState::Held { .. })), "{first:?}");
    let second = StreamExt::next(&mut states).await;
    assert!(
        matches!(second, Some(HoldState::Suspect { .. })),
        "{second:?}"
    );
    lease.renewal_answers(Answer::Yes);
    let begin = Instant::now();
    let third = StreamExt::next(&mut states).await;
    assert!(matches!(third, Some(HoldState::Held { .. })), "{third:?}");
    assert!(begin.elapsed() <= 2 * SECOND, "{:?}", begin.elapsed());
    drop(guard);
    let last = StreamExt::next(&mut states).await;
    assert_eq!(last, Some(HoldState::Lost(LossReason::Released)));
    assert_eq!(StreamExt::next(&mut states).await, None);
}

#[tokio::test(start_paused = true)]
async fn a_change_that_nobody_received_is_told_the_next_time() {
    let (lease, keeper) = keeper();
    lease.renewal_answers(Answer::Never);
    let guard = hold(&keeper, "k");
    let mut states = guard.watch().states();
    assert!(states.next().await.is_some());
    for _ in 0..5 {
        let given_up = tokio::time::timeout(SECOND, states.next()).await;
        assert!(given_up.is_err(), "{given_up:?}");
    }
    sleep(TTL / 2).await;
    let state = states.next().await;
    assert!(
        matches!(state, Some(HoldState::Suspect { .. })),
        "{state:?}"
    );
}
