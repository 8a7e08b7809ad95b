//! Takes whose outcome the client does not learn, or learns late.

use std::time::Duration;

use futures_executor::block_on;
use lock_core::backend::Released;
use lock_core::{DistributedLock, ErrorKind, LockRequest, Mode, Wait};
use lock_mysql::{MySqlHold, MySqlLock};
use lock_testkit::faults::Connections;
use lock_testkit::servers::SqlVendor;
use lock_testkit::{eventually, steady};
use tokio::runtime::{Builder, Handle};
use tokio::task::{block_in_place, spawn_blocking};
use tokio::time::Instant;

use crate::bed::{BOTH, Bed, connect, modes, request, take, take_and_release};
use crate::{LONG, PROMPT};

/// The client counts validity from the request that was answered. The server must keep the lease as
/// long.
#[test]
fn a_lease_whose_first_grant_went_unheard_lasts_as_long_as_the_client_believes() {
    steady(async || {
        const TTL: Duration = Duration::from_secs(9);
        for vendor in SqlVendor::available() {
            let bed = Bed::new(vendor);
            let locks = bed.client(MySqlHold::Lease).await;
            for mode in modes(MySqlHold::Lease) {
                let key = format!("{mode:?}");
                let request = request(&key, mode, TTL);
                take_and_release(&locks, &request).await;
                let before = bed.server.execute("SELECT MAX(token) FROM locks");
                bed.proxy.all().to_client().hold();
                let acquiring = locks.acquire(request.clone().with_wait(Wait::within(PROMPT)));
                let heard = async {
                    let granted = || async { bed.expires_in(&key) > Duration::ZERO };
                    eventually(PROMPT, "the server has granted it", granted).await;
                    let less = TTL
                        .checked_sub(Duration::from_millis(1500))
                        .expect("longer");
                    let late = || async { bed.expires_in(&key) < less };
                    eventually(PROMPT, "some of the lease is over", late).await;
                    bed.proxy.all().reset();
                    bed.proxy.all().pass();
                };
                let (guard, ()) = tokio::join!(acquiring, heard);
                let guard = guard.expect("it can be reached").expect("it is ours");
                let (believed, left) = (guard.remaining(), bed.expires_in(&key));
                assert!(
                    believed <= left,
                    "{vendor:?}, {mode:?}: {believed:?} of {left:?}"
                );
                let after = bed.server.execute("SELECT MAX(token) FROM locks");
                assert!(after > before);
                assert_eq!(after, (guard.token().value() >> 14).to_string(), "{mode:?}");
                assert_eq!(guard.release().await.expect("it runs"), Released::Released);
            }
        }
    });
}

#[test]
fn a_wait_outlasts_a_connection_that_goes_silent_after_the_grant() {
    steady(async || {
        let bed = Bed::new(SqlVendor::MariaDb);
        for hold in BOTH {
            let locks = bed.client(hold).await;
            for mode in modes(hold) {
                let request = request(&format!("{hold:?} {mode:?}"), mode, LONG);
                take_and_release(&locks, &request).await;
                bed.proxy.all().lose_next_reply_and_go_silent();
                let guard = take(&locks, &request).await;
                assert_eq!(guard.release().await.expect("it runs"), Released::Released);
                bed.empties().await;
            }
        }
    });
}

#[test]
fn an_attempt_on_a_connection_that_goes_silent_leaves_nothing() {
    steady(async || {
        let bed = Bed::new(SqlVendor::MariaDb);
        for hold in BOTH {
            let locks = bed.client(hold).await;
            for mode in modes(hold) {
                let request = request(&format!("{hold:?} {mode:?}"), mode, LONG);
                take_and_release(&locks, &request).await;
                bed.proxy.all().lose_next_reply_and_go_silent();
                let answer = locks.acquire(request).await;
                assert!(answer.is_err(), "{answer:?}");
                bed.empties().await;
            }
        }
    });
}

/// The question goes over the client's first connection.
#[test]
fn a_try_that_cannot_learn_why_a_row_is_locked_says_so() {
    steady(async || {
        // The question gets no answer; then further questions cannot be asked, or can.
        let cases = [MySqlHold::Row, MySqlHold::Lease].map(|hold| [(hold, true), (hold, false)]);
        for (hold, are_refused) in cases.into_iter().flatten() {
            let bed = Bed::new(SqlVendor::MariaDb);
            let [free, new] = ["free", "new"].map(|key| request(key, Mode::Exclusive, LONG));
            let (ours, theirs) = (bed.client(hold).await, bed.direct(hold).await);
            take_and_release(&ours, &free).await;
            let mut backup = bed.server.session();
            backup.run("BACKUP STAGE START");
            backup.run("BACKUP STAGE BLOCK_COMMIT");
            let trying = async {
                let is_blocked = async || {
                    bed.server.execute(
                        "SELECT COUNT(*) FROM information_schema.processlist WHERE state = 'Waiting for backup lock'",
                    ) == "1"
                };
                eventually(PROMPT, "the row cannot be committed", is_blocked).await;
                if are_refused {
                    bed.proxy.refuse();
                }
                bed.proxy.nth(0).to_client().hold();
                ours.acquire(new.clone()).await
            };
            let (created, tried) = tokio::join!(theirs.acquire(new.clone()), trying);
            created.expect_err("it cannot be committed");
            let error = tried.expect_err("a row without a holder is not busy");
            let told = error.to_string();
            assert!(told.contains("does not say why"), "{hold:?}: {told}");
            assert_eq!(error.kind(), ErrorKind::Unavailable, "{hold:?}: {told}");
        }
    });
}

#[test]
fn a_grant_that_went_unheard_is_given_back_although_the_take_is_denied_when_it_is_sent_again() {
    steady(async || {
        for vendor in SqlVendor::available() {
            let bed = Bed::new(vendor);
            drop(bed.direct(MySqlHold::Lease).await);
            // Revoke rights on tables: a change of rights on databases affects later connections
            // only.
            bed.server.execute("CREATE USER app@'127.0.0.1'; GRANT SELECT, INSERT, UPDATE, DELETE ON locks.locks TO app@'127.0.0.1'; GRANT SELECT ON locks.locks_holders TO app@'127.0.0.1'");
            let url = format!("mysql://app@127.0.0.1:{}/locks", bed.proxy.port());
            let locks = connect(url, MySqlHold::Lease).await;
            let request = request("k", Mode::Exclusive, LONG);
            take_and_release(&locks, &request).await;
            bed.proxy.all().to_client().lose();
            let denied = async {
                let granted = || async { bed.expires_in("k") > Duration::ZERO };
                eventually(PROMPT, "the server has granted it", granted).await;
                let revoke = "REVOKE INSERT, UPDATE ON locks.locks FROM app@'127.0.0.1'";
                bed.server.execute(revoke);
                bed.proxy.all().reset();
                bed.proxy.all().pass();
            };
            let (answer, ()) = tokio::join!(locks.acquire(request), denied);
            let error = answer.expect_err("it may not any more");
            assert_eq!(error.kind(), ErrorKind::Denied, "{vendor:?}: {error}");
            let grant = "GRANT INSERT, UPDATE ON locks.locks TO app@'127.0.0.1'";
            bed.server.execute(grant);
            bed.empties().await;
        }
    });
}

/// Returns the connection that takes travel on.
async fn connection_of_takes<'a>(
    bed: &'a Bed,
    locks: &MySqlLock,
    request: &LockRequest,
) -> Connections<'a> {
    // Open all connections first.
    take_and_release(locks, request).await;
    let before = bed.sent();
    let guard = take(locks, request).await;
    let sent = bed.sent();
    guard.release().await.expect("the server runs");
    let busiest = (0..before.len()).max_by_key(|number| sent[*number] - before[*number]);
    bed.proxy.nth(busiest.expect("there are connections"))
}

/// Drops an acquisition while its take is under way, and delivers the take after later requests.
///
/// Returns false if that took so long that the server may have ended the take.
async fn take_arrives_late(bed: &Bed, locks: &MySqlLock, asked: &LockRequest) -> bool {
    const SOON: Duration = Duration::from_millis(200);
    let takes = connection_of_takes(bed, locks, asked).await;
    let (questions, answers) = (takes.clone().to_server(), takes.clone().to_client());
    let (asked_before, answered_before) = (questions.bytes(), answers.bytes());
    questions.hold();
    let on_the_way = || async { questions.bytes() > asked_before };
    tokio::select! {
        answer = locks.acquire(asked.clone()) => panic!("it has arrived: {answer:?}"),
        () = eventually(PROMPT, "the take is on the way", on_the_way) => {}
    }
    let given_up = Instant::now();
    // Later than a clean-up that overtakes the take.
    take_and_release(locks, &request("another", Mode::Exclusive, LONG)).await;
    questions.pass();
    let is_soon = given_up.elapsed() < SOON;
    let done = || async { answers.bytes() > answered_before || answers.open() == 0 };
    eventually(PROMPT, "the take is answered", done).await;
    is_soon
}

#[test]
fn a_take_that_arrives_after_its_acquisition_was_given_up_leaves_nothing() {
    steady(async || {
        const ATTEMPTS: usize = 10;
        let bed = Bed::new(SqlVendor::MariaDb);
        let locks = bed.client(MySqlHold::Lease).await;
        for mode in modes(MySqlHold::Lease) {
            let request = request(&format!("{mode:?}"), mode, LONG);
            for _ in 0..ATTEMPTS {
                let was_soon = take_arrives_late(&bed, &locks, &request).await;
                bed.empties().await;
                if was_soon {
                    break;
                }
            }
        }
    });
}

/// Starts a take on a runtime that then ends, and returns the connection that holds the take up.
///
/// With `is_awaited` a blocking thread waits for the take.
fn take_on_a_runtime_that_ends<'a>(
    bed: &'a Bed,
    locks: &MySqlLock,
    asked: &LockRequest,
    is_awaited: bool,
) -> Connections<'a> {
    let runtime = Builder::new_multi_thread()
        .enable_all()
        .build()
        .expect("a runtime");
    let (locks, asked) = (locks.clone(), asked.clone());
    let (questions, taking) = runtime.block_on(async {
        let questions = connection_of_takes(bed, &locks, &asked).await.to_server();
        let before = questions.bytes();
        questions.hold();
        let here = Handle::current();
        let taking = async move { locks.acquire(asked).await };
        let taking = match is_awaited {
            // The thread outlives its runtime.
            true => spawn_blocking(move || here.block_on(taking)),
            false => here.spawn(taking),
        };
        let on_the_way = || async { questions.bytes() > before };
        eventually(PROMPT, "the take is on the way", on_the_way).await;
        (questions, taking)
    });
    runtime.shutdown_background();
    if is_awaited {
        let outcome = block_on(taking).expect("no panic");
        assert!(outcome.is_err(), "{outcome:?}");
    }
    questions
}

/// No task waits for the take's answer any more, so the client ends its connection on the server.
#[test]
fn a_take_whose_runtime_has_ended_leaves_nothing_when_it_arrives() {
    steady(async || {
        let bed = Bed::new(SqlVendor::MariaDb);
        for is_awaited in [false, true] {
            let locks = bed.client(MySqlHold::Lease).await;
            let asked = request("k", Mode::Exclusive, LONG);
            let questions =
                block_in_place(|| take_on_a_runtime_that_ends(&bed, &locks, &asked, is_awaited));
            locks.shutdown(PROMPT).await.expect("nothing is under way");
            questions.pass();
            drop(locks);
            let ended = || async { bed.proxy.all().open() == 0 };
            eventually(PROMPT, "all that was asked has arrived", ended).await;
            assert_eq!(bed.held(), 0, "granted to nobody, awaited: {is_awaited}");
        }
    });
}
