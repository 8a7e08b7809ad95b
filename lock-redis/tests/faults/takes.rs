//! Takes whose outcome the client does not learn, or does not wait for.

use std::time::Duration;

use lock_core::backend::Released;
use lock_core::{DistributedLock, ErrorKind, LockGuard, LockRequest, Mode};
use lock_testkit::{eventually, poll_times, steady};
use tokio::task::JoinSet;
use tokio::time::timeout;

use crate::bed::{Bed, exclusive, in_all_modes, take, try_take};
use crate::{LONG, PROMPT};

/// Returns the grant number that the server has for the one hold of a request.
fn number_on_server(bed: &Bed, request: &LockRequest) -> u64 {
    let key = request.key.as_str();
    let text = match request.mode {
        Mode::Exclusive => bed.ask(&["GET", key]).text().expect("held"),
        _ => {
            let tokens = [key.as_bytes(), b"\xfftokens"].concat();
            let command = [b"HVALS".as_slice(), &tokens];
            bed.admin()
                .command(&command)
                .expect("the server runs")
                .texts()
                .concat()
        }
    };
    // Behind the claim id of an exclusive lock; slot and metadata follow.
    let granted = match request.mode {
        Mode::Exclusive => text.split_once(':').expect("a claim id").1,
        _ => &text,
    };
    let number = granted.split(' ').next().unwrap_or_default();
    number.parse().expect("a grant number")
}

fn grant_number(guard: &LockGuard) -> u64 {
    guard.token().value() >> 14
}

#[test]
fn a_take_whose_reply_is_lost_is_granted_once_and_with_its_token() {
    steady(async || {
        let bed = Bed::new();
        let locks = bed.client().await;
        for request in in_all_modes("k", LONG) {
            bed.command().lose_next_reply_and_cut();
            bed.proxy.refuse();
            let meanwhile = async {
                let key = request.key.as_str();
                eventually(PROMPT, "the server grants", || async { bed.exists(key) }).await;
                let number = number_on_server(&bed, &request);
                bed.proxy.accept();
                number
            };
            let (guard, number) = tokio::join!(take(&locks, &request), meanwhile);
            assert_eq!(
                grant_number(&guard),
                number,
                "{:?}: a second grant",
                request.mode
            );
            assert_eq!(guard.release().await.unwrap(), Released::Released);
        }
        bed.empties().await;
    });
}

#[test]
fn a_single_attempt_survives_a_reply_that_is_cut_off_in_the_middle() {
    steady(async || {
        let bed = Bed::new();
        let locks = bed.client().await;
        for round in 0..12 {
            let request = &in_all_modes("k", LONG)[round % 3];
            bed.command().to_client().cut_after(1 + round % 3);
            let guard = try_take(&locks, request).await.unwrap().expect("free");
            assert_eq!(guard.release().await.unwrap(), Released::Released);
        }
        bed.empties().await;
    });
}

#[test]
fn a_single_attempt_survives_a_reply_lost_with_its_connection() {
    steady(async || {
        let bed = Bed::new();
        let locks = bed.client().await;
        let mut last = 0;
        for round in 0..100 {
            let request = &in_all_modes("k", LONG)[round % 3];
            bed.command().lose_next_reply_and_cut();
            let guard = try_take(&locks, request).await.unwrap().expect("free");
            assert!(
                grant_number(&guard) > last,
                "{} after {last}",
                guard.token()
            );
            assert_eq!(grant_number(&guard), number_on_server(&bed, request));
            last = grant_number(&guard);
            guard.release().await.unwrap();
        }
        bed.empties().await;
    });
}

#[test]
fn a_wait_outlasts_a_connection_that_goes_silent_after_the_grant() {
    steady(async || {
        let mut modes = JoinSet::new();
        for request in in_all_modes("k", LONG) {
            modes.spawn(async move {
                let bed = Bed::new();
                let locks = bed.client().await;
                bed.command().lose_next_reply_and_go_silent();
                let answer = timeout(LONG / 2, locks.acquire(request)).await;
                let guard = answer.expect("it does not wait for its own ghost");
                drop(guard.unwrap().expect("a wait without end is not given up"));
                bed.empties().await;
            });
        }
        modes.join_all().await;
    });
}

#[test]
fn an_attempt_that_failed_after_the_grant_is_undone_once_the_network_is_back() {
    steady(async || {
        for request in in_all_modes("k", LONG) {
            let bed = Bed::new();
            let locks = bed.client().await;
            bed.command().lose_next_reply_and_cut();
            bed.proxy.refuse();
            // Fails the background connection, too, which would send the clean-up.
            bed.background().lose();
            let error = try_take(&locks, &request).await.unwrap_err();
            assert_eq!(error.kind(), ErrorKind::Unavailable, "{error}");
            assert!(bed.exists(request.key.as_str()), "the server granted it");
            bed.proxy.all().pass();
            bed.proxy.accept();
            bed.empties().await;
        }
    });
}

#[test]
fn a_clean_up_does_not_overtake_its_take() {
    steady(async || {
        for request in in_all_modes("k", LONG) {
            let bed = Bed::new();
            let locks = bed.client().await;
            let (granted, begun) = (bed.grants(), bed.command().to_server().bytes());
            bed.command().to_server().hold();
            // Poll the take until it is under way: the driver does not send the request of a
            // dropped future.
            tokio::select! {
                outcome = locks.acquire(request) => panic!("the take is held up: {outcome:?}"),
                () = eventually(PROMPT, "the take is under way", || async {
                    bed.command().to_server().bytes() > begun
                }) => {}
            }
            // The clean-up waits for the command connection for a limited time, then goes over the
            // other connection.
            let calls = bed.scripts();
            eventually(PROMPT, "a clean-up arrives", || async {
                bed.scripts() > calls
            })
            .await;
            bed.proxy.all().pass();
            eventually(PROMPT, "the take arrives, late", || async {
                bed.grants() > granted
            })
            .await;
            bed.empties().await;
        }
    });
}

/// The take is still on its way when the client replaces the connection. On the new connection the
/// take is refused, and then the waiter gives up.
#[test]
fn a_take_on_a_connection_that_was_replaced_never_arrives() {
    steady(async || {
        let mut modes = JoinSet::new();
        for request in in_all_modes("k", LONG) {
            modes.spawn(async move {
                let bed = Bed::new();
                let (direct, locks) = (bed.direct().await, bed.client().await);
                let held = take(&direct, &exclusive(request.key.as_str(), LONG)).await;
                let first = || bed.proxy.nth(0);
                assert_eq!(bed.command().count(), 1);
                first().to_server().hold();
                let mut waiting = JoinSet::new();
                waiting.spawn(async move { locks.acquire(request).await });
                eventually(PROMPT, "it waits on another connection", || async {
                    bed.command().count() > 1 && bed.figure("stats", "tracking_total_keys") > 0
                })
                .await;
                waiting.shutdown().await;
                held.release().await.unwrap();
                first().pass();
                eventually(PROMPT, "the first connection ends", || async {
                    first().open() == 0
                })
                .await;
                bed.empties().await;
            });
        }
        modes.join_all().await;
    });
}

#[test]
fn acquisitions_dropped_at_every_poll_over_a_slow_network_leave_nothing() {
    steady(async || {
        let bed = Bed::new();
        let locks = bed.client().await;
        for delay in [5, 20, 50].map(Duration::from_millis) {
            bed.proxy.all().to_client().delay(delay);
            let mut cancelled = JoinSet::new();
            for polls in 0..12 {
                for (mode, request) in in_all_modes(&format!("k{polls}"), LONG)
                    .into_iter()
                    .enumerate()
                {
                    for waits in [false, true] {
                        let (locks, request) = (locks.clone(), request.clone());
                        // Half of the requests do not wait; the other requests may wait for each
                        // other.
                        let request = if waits {
                            request
                        } else {
                            request.without_waiting()
                        };
                        let limit = delay * polls as u32 / 4 + Duration::from_millis(mode as u64);
                        cancelled.spawn(async move {
                            drop(poll_times(locks.acquire(request), polls, limit).await);
                        });
                    }
                }
            }
            cancelled.join_all().await;
            bed.empties().await;
        }
        bed.proxy.all().pass();
        let request = exclusive("k3", LONG);
        assert!(
            take(&locks, &request).await.is_held(),
            "the client is still in order"
        );
    });
}

#[test]
fn acquisitions_cancelled_by_time_do_not_keep_the_next_one_out() {
    steady(async || {
        let bed = Bed::new();
        let locks = bed.client().await;
        bed.proxy.all().to_client().delay(Duration::from_millis(10));
        let request = exclusive("k", LONG);
        for round in 0..60 {
            let limit = Duration::from_micros(round * 500);
            drop(timeout(limit, locks.acquire(request.clone())).await);
            if round % 10 == 0 {
                take(&locks, &request).await.release().await.unwrap();
            }
        }
        bed.empties().await;
    });
}
