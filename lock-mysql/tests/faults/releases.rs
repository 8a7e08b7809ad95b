//! Releases whose answer does not arrive.

use std::time::Duration;

use futures_util::future::join_all;
use lock_core::backend::Released;
use lock_core::{DistributedLock, ErrorKind, LockGuard, Mode, Wait};
use lock_mysql::MySqlHold;
use lock_testkit::servers::SqlVendor;
use lock_testkit::{eventually, steady};

use crate::bed::{BOTH, Bed, modes, request, take, take_and_release};
use crate::{LONG, PROMPT};

/// Releases the lock, and accepts each outcome that a lost answer can have.
async fn release_unheard(guard: LockGuard) {
    match guard.release().await {
        Ok(Released::Released | Released::AlreadyLost) => {}
        Err(error) => assert_eq!(error.kind(), ErrorKind::Unavailable, "{error}"),
    }
}

#[test]
fn a_release_whose_answer_is_lost_with_its_connection_is_done() {
    steady(async || {
        for vendor in SqlVendor::available() {
            let bed = Bed::new(vendor);
            for hold in BOTH {
                let locks = bed.client(hold).await;
                for mode in modes(hold) {
                    let request = request(&format!("{hold:?} {mode:?}"), mode, LONG);
                    take_and_release(&locks, &request).await;
                    let guard = take(&locks, &request).await;
                    bed.proxy.all().lose_next_reply_and_cut();
                    release_unheard(guard).await;
                    bed.empties().await;
                }
            }
        }
    });
}

#[test]
fn a_release_whose_connection_goes_silent_is_done() {
    steady(async || {
        let bed = Bed::new(SqlVendor::MariaDb);
        for hold in BOTH {
            let locks = bed.client(hold).await;
            for mode in modes(hold) {
                let request = request(&format!("{hold:?} {mode:?}"), mode, LONG);
                take_and_release(&locks, &request).await;
                let guard = take(&locks, &request).await;
                bed.proxy.all().lose_next_reply_and_go_silent();
                release_unheard(guard).await;
                bed.empties().await;
                // The key is free for the next take.
                take_and_release(&locks, &request).await;
            }
        }
    });
}

/// The release on the other route then finds no row, and its answer may arrive first.
#[test]
fn a_release_whose_first_route_answers_late_is_no_loss() {
    /// Longer than a release waits before it uses the other route.
    const LATE: Duration = Duration::from_millis(200);
    steady(async || {
        let bed = Bed::new(SqlVendor::MariaDb);
        let locks = bed.client(MySqlHold::Lease).await;
        for mode in modes(MySqlHold::Lease) {
            let request = request(&format!("{mode:?}"), mode, LONG);
            take_and_release(&locks, &request).await;
            let before = bed.sent();
            let guard = take(&locks, &request).await;
            let after = bed.sent();
            let used: Vec<usize> = (0..before.len())
                .filter(|&number| after[number] > before[number])
                .collect();
            let answers = || {
                let others = (0..bed.proxy.all().count()).filter(|number| !used.contains(number));
                let bytes = others.map(|number| bed.proxy.nth(number).to_client().bytes());
                bytes.sum::<usize>()
            };
            for &number in &used {
                bed.proxy.nth(number).to_client().hold();
            }
            let answered = answers();
            let answering = async {
                let has_answered = || async { answers() > answered };
                eventually(PROMPT, "an answer on the other route", has_answered).await;
                tokio::time::sleep(LATE).await;
                bed.proxy.all().pass();
            };
            let (released, ()) = tokio::join!(guard.release(), answering);
            let released = released.expect("the server runs");
            assert_eq!(released, Released::Released, "{mode:?}");
            bed.empties().await;
        }
    });
}

#[test]
fn a_release_in_the_middle_of_a_heartbeat_is_one() {
    steady(async || {
        const HOLDS: usize = 10;
        const TTL: Duration = Duration::from_secs(6);
        let bed = Bed::new(SqlVendor::MariaDb);
        let locks = bed.client(MySqlHold::Row).await;
        let mut guards = Vec::new();
        for number in 0..HOLDS {
            let request = request(&format!("k{number}"), Mode::Exclusive, TTL);
            guards.push(take(&locks, &request).await);
        }
        bed.proxy.all().to_client().hold();
        let before = bed.sent();
        let all_beat = || async {
            let now = bed.sent();
            let beating = now.iter().zip(&before).filter(|(now, before)| now > before);
            beating.count() >= HOLDS
        };
        eventually(PROMPT, "a heartbeat of each, not answered yet", all_beat).await;
        let releasing = join_all(guards.into_iter().map(LockGuard::release));
        let answering = async {
            // This take follows the releases on the runtime of the keeper, so its connection shows
            // that they have begun.
            let another = request("another", Mode::Exclusive, TTL);
            let connections = bed.proxy.all().count();
            let connects = || async { bed.proxy.all().count() > connections };
            tokio::select! {
                answer = locks.acquire(another) => panic!("nothing is answered: {answer:?}"),
                () = eventually(PROMPT, "a connection for another lock", connects) => {}
            }
            bed.proxy.all().pass();
        };
        let (released, ()) = tokio::join!(releasing, answering);
        for released in released {
            assert_eq!(released.expect("the server runs"), Released::Released);
        }
        bed.empties().await;
    });
}

#[test]
fn a_release_that_is_late_takes_no_later_lock_along() {
    steady(async || {
        let bed = Bed::new(SqlVendor::MariaDb);
        let locks = bed.client(MySqlHold::Row).await;
        let first = request("first", Mode::Exclusive, LONG);
        let second = request("second", Mode::Exclusive, LONG);
        take_and_release(&locks, &first).await;
        take_and_release(&locks, &second).await;
        let before = bed.sent();
        let guard = take(&locks, &first).await;
        let after = bed.sent();
        let used = |number: &usize| after[*number] > before[*number];
        let (its_own, others): (Vec<_>, Vec<_>) = (0..before.len()).partition(used);
        let answers = || -> usize {
            let answered = others
                .iter()
                .map(|&number| bed.proxy.nth(number).to_client().bytes());
            answered.sum()
        };
        // The transaction's end gets no answer, and the `KILL` of its connection comes late.
        let [its_own] = its_own[..] else {
            panic!("a take travels on one connection: {before:?}, then {after:?}");
        };
        bed.proxy.nth(its_own).to_client().hold();
        for &other in &others {
            bed.proxy.nth(other).to_server().hold();
        }
        let sent = |number: &usize| bed.proxy.nth(*number).to_server().bytes();
        let is_killing = || async { others.iter().any(|other| sent(other) > after[*other]) };
        let answering = async {
            eventually(PROMPT, "its connection is to be ended", is_killing).await;
            bed.proxy.nth(its_own).pass();
        };
        tokio::join!(release_unheard(guard), answering);
        let _held = take(&locks, &second).await;
        let unanswered = answers();
        for &other in &others {
            bed.proxy.nth(other).pass();
        }
        eventually(PROMPT, "what was late is answered", || async {
            answers() > unanswered
        })
        .await;
        let stranger = bed.direct(MySqlHold::Row).await;
        let wait = Wait::within(Duration::from_secs(1));
        let taken = stranger.acquire(second.with_wait(wait)).await;
        lock_testkit::assert_excluded!(taken.expect("the server runs").is_none());
    });
}
