//! Releases that are interrupted, repeated or late.

use std::time::Duration;

use lock_core::backend::Released;
use lock_core::{ErrorKind, LossReason};
use lock_testkit::{eventually, steady};
use tokio::time::{Instant, timeout};

use crate::bed::{Bed, exclusive, in_all_modes, lost, take};
use crate::{LONG, PROMPT};

#[test]
fn a_release_that_is_not_waited_for_goes_on() {
    steady(async || {
        let bed = Bed::new();
        let locks = bed.client().await;
        for delay in [0, 5, 20].map(Duration::from_millis) {
            bed.proxy.all().pass();
            let mut guards = Vec::new();
            for number in 0..12 {
                for request in in_all_modes(&format!("k{number}"), LONG) {
                    guards.push(take(&locks, &request).await);
                }
            }
            bed.proxy.all().delay(delay);
            for (number, guard) in guards.into_iter().enumerate() {
                let limit = Duration::from_micros(number as u64 * 300);
                drop(timeout(limit, guard.release()).await);
            }
            bed.empties().await;
        }
    });
}

/// The outcome may be `Released` or `AlreadyLost`. If the repeated release deletes nothing, the
/// first release or another client has removed the hold.
#[test]
fn a_release_whose_reply_is_lost_is_repeated_and_is_no_error() {
    steady(async || {
        let bed = Bed::new();
        let locks = bed.client().await;
        for request in in_all_modes("k", LONG) {
            let guard = take(&locks, &request).await;
            bed.command().lose_next_reply_and_cut();
            guard.release().await.unwrap();
            bed.empties().await;
            let guard = take(&locks, &request).await;
            bed.command().lose_next_reply_and_go_silent();
            guard.release().await.unwrap();
            bed.empties().await;
        }
    });
}

/// The release over the other connection then deletes nothing, and its answer may come first.
#[test]
fn a_release_whose_first_route_answers_late_is_no_loss() {
    /// Longer than the client needs to read an answer that has arrived.
    const LATE: Duration = Duration::from_millis(150);
    steady(async || {
        let bed = Bed::new();
        let locks = bed.client().await;
        for request in in_all_modes("k", LONG) {
            let guard = take(&locks, &request).await;
            let sent = bed.background().to_client().bytes();
            bed.command().to_client().hold();
            let answering = async {
                let has_answered = || async { bed.background().to_client().bytes() > sent };
                eventually(PROMPT, "an answer on the other route", has_answered).await;
                tokio::time::sleep(LATE).await;
                bed.command().pass();
            };
            let (released, ()) = tokio::join!(guard.release(), answering);
            let released = released.expect("the server runs");
            assert_eq!(released, Released::Released, "{:?}", request.mode);
            bed.empties().await;
        }
    });
}

#[test]
fn a_release_that_is_repeated_frees_nobody_else() {
    steady(async || {
        let bed = Bed::new();
        let (locks, direct) = (bed.client().await, bed.direct().await);
        let request = exclusive("k", LONG);
        let guard = take(&locks, &request).await;
        bed.command().lose_next_reply_and_go_silent();
        let releasing = guard.release();
        let next = async {
            let next = take(&direct, &request).await;
            (bed.ask(&["GET", "k"]), next)
        };
        // The next holder acquires the lock while the first release has no answer.
        let (outcome, (held, next)) = tokio::join!(releasing, next);
        outcome.unwrap();
        assert_eq!(
            bed.ask(&["GET", "k"]),
            held,
            "somebody else's lock was released"
        );
        assert_eq!(next.release().await.unwrap(), Released::Released);
    });
}

#[test]
fn a_release_after_the_lease_is_over_says_so_and_frees_nobody() {
    steady(async || {
        let ttl = Duration::from_millis(600);
        for request in in_all_modes("k", ttl) {
            let bed = Bed::new();
            let (locks, direct) = (bed.client().await, bed.direct().await);
            let guard = take(&locks, &request).await;
            bed.proxy.all().hold();
            assert_eq!(lost(&guard).await, LossReason::Expired);
            let next = take(&direct, &exclusive(request.key.as_str(), LONG)).await;
            let key = request.key.as_str();
            let held = bed.ask(&["GET", key]);
            // The delayed renewals arrive now.
            let before = bed.expires_in(key);
            bed.proxy.all().pass();
            let begin = Instant::now();
            assert_eq!(guard.release().await.unwrap(), Released::AlreadyLost);
            assert!(begin.elapsed() < PROMPT, "{:?}", begin.elapsed());
            assert_eq!(
                bed.ask(&["GET", key]),
                held,
                "somebody else's lock was touched"
            );
            assert!(
                bed.expires_in(key) <= before,
                "somebody else's lease was prolonged"
            );
            assert_eq!(next.release().await.unwrap(), Released::Released);
        }
    });
}

#[test]
fn a_release_on_a_silent_network_fails_soon_and_is_made_up_for() {
    steady(async || {
        let bed = Bed::new();
        let locks = bed.client().await;
        let mut guards = Vec::new();
        for request in in_all_modes("k", LONG) {
            guards.push(take(&locks, &request).await);
        }
        bed.proxy.all().lose();
        let mut quickest = PROMPT;
        for guard in guards {
            let begin = Instant::now();
            let error = guard.release().await.unwrap_err();
            assert_eq!(error.kind(), ErrorKind::Unavailable, "{error}");
            quickest = quickest.min(begin.elapsed());
        }
        assert!(quickest < Duration::from_millis(1200), "{quickest:?}");
        assert!(bed.exists("k"));
        bed.proxy.all().pass();
        bed.empties().await;
    });
}

#[test]
fn a_release_on_a_connection_that_is_reset_is_done_on_another() {
    steady(async || {
        let bed = Bed::new();
        let locks = bed.client().await;
        for round in 0..30 {
            let request = &in_all_modes("k", LONG)[round % 3];
            let guard = take(&locks, request).await;
            if round % 2 == 0 {
                bed.proxy.all().reset();
                // The server may have executed the release before the reset, so either outcome is
                // right.
                guard.release().await.unwrap();
            } else {
                bed.command().to_server().cut_after(10);
                let outcome = guard.release().await.unwrap();
                assert_eq!(outcome, Released::Released, "round {round}");
            }
            eventually(PROMPT, "the key is free", || async {
                !bed.exists(request.key.as_str())
            })
            .await;
        }
    });
}
