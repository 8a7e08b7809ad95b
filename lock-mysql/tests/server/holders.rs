//! Holders of one key with different ends. The key is closed until the last end.

use std::time::Duration;

use futures_util::future::join_all;
use lock_core::{DistributedLock, LockGuard, LockRequest, Mode, Wait};
use lock_mysql::{MySqlConfig, MySqlHold, MySqlLock};
use lock_testkit::faults::Proxy;
use lock_testkit::servers::{SqlServer, SqlVendor};
use lock_testkit::{assert_excluded, steady};
use tokio::time::{Instant, sleep};

use crate::{BOTH, LONG, connect, exclusive, row, take_soon};

/// Counts the keys whose row states an earlier end than their last holder has.
const SHORT: &str = "SELECT COUNT(*) FROM locks JOIN (SELECT k, MAX(expires) AS last FROM locks_holders GROUP BY k) AS held USING (k) WHERE locks.expires < held.last";

const SECOND: Duration = Duration::from_secs(1);

fn request(key: &str, mode: Mode, seconds: u32) -> LockRequest {
    let request = LockRequest::new(key.try_into().expect("a key"), mode);
    request.with_ttl(SECOND * seconds)
}

fn permit() -> Mode {
    Mode::permit(3).expect("a permit")
}

/// Takes each key for two holders, which are sometimes renewed in one packet.
async fn pairs(locks: &MySqlLock, keys: u32) -> Vec<LockGuard> {
    let mut guards = Vec::new();
    for number in 0..keys {
        let delayed = |delay: u32| {
            let request = request(&format!("delayed {number}"), Mode::Shared, 2);
            request.with_lock_delay(SECOND * delay)
        };
        for request in [
            request(&format!("read {number}"), Mode::Shared, 6),
            request(&format!("read {number}"), Mode::Shared, 2),
            request(&format!("permit {number}"), permit(), 6),
            request(&format!("permit {number}"), permit(), 2),
            delayed(4),
            delayed(0),
        ] {
            guards.push(take_soon(locks, request).await);
        }
    }
    guards
}

/// Processes of an older version trust the end in the row.
#[test]
fn a_row_says_the_end_of_its_last_holder_whatever_is_renewed_together() {
    steady(async || {
        for vendor in SqlVendor::available() {
            let server = SqlServer::start(vendor);
            let locks = connect(&server, MySqlHold::Lease).await;
            let guards = pairs(&locks, 20).await;
            let mut session = server.session();
            let ends = Instant::now() + SECOND * 5;
            while Instant::now() < ends {
                let short = session.run(SHORT);
                assert_excluded!(
                    short == ["0"],
                    "{vendor:?}: a process that goes by the row gets in at {short:?} keys"
                );
                sleep(Duration::from_millis(5)).await;
            }
            assert!(guards.iter().all(LockGuard::is_held));
        }
    });
}

/// Processes of an older version leave such rows.
#[test]
fn holders_count_whatever_the_row_says_of_their_end() {
    steady(async || {
        for vendor in SqlVendor::available() {
            let server = SqlServer::start(vendor);
            let ours = connect(&server, MySqlHold::Lease).await;
            let held = [
                take_soon(&ours, request("read", Mode::Shared, 60)).await,
                take_soon(&ours, request("permit", permit(), 60)).await,
            ];
            server.execute("UPDATE locks SET expires = UTC_TIMESTAMP(6) - INTERVAL 1 HOUR");
            for hold in BOTH {
                let other = connect(&server, hold).await;
                for (key, mode) in [
                    ("read", Mode::Exclusive),
                    ("read", permit()),
                    ("permit", Mode::Exclusive),
                    ("permit", Mode::Shared),
                ] {
                    if hold == MySqlHold::Row && matches!(mode, Mode::Permit { .. }) {
                        continue;
                    }
                    for wait in [Duration::ZERO, Duration::from_millis(300)] {
                        let asked = request(key, mode, 60).with_wait(Wait::within(wait));
                        let answer = other.acquire(asked).await.expect("busy is no error");
                        assert_excluded!(
                            answer.is_none(),
                            "{vendor:?}, {hold:?}, {mode:?} of {key}"
                        );
                    }
                }
            }
            for guard in held {
                guard.release().await.expect("it runs");
            }
            for key in ["read", "permit"] {
                let free = ours.acquire(exclusive(key, LONG)).await.expect("it runs");
                drop(free.expect("free after the last holder"));
            }
        }
    });
}

#[test]
fn a_key_whose_holders_have_died_is_granted_at_the_first_try() {
    steady(async || {
        for vendor in SqlVendor::available() {
            let server = SqlServer::start(vendor);
            for (hold, modes) in [
                (
                    MySqlHold::Lease,
                    vec![Mode::Exclusive, Mode::Shared, permit()],
                ),
                (MySqlHold::Row, vec![Mode::Exclusive, Mode::Shared]),
            ] {
                let locks = connect(&server, hold).await;
                for mode in modes {
                    for dead in ['s', 'p'] {
                        server.execute(&format!("REPLACE INTO locks (k, mode, token, expires) VALUES ('k', '{dead}', 1, UTC_TIMESTAMP(6)); REPLACE INTO locks_holders (k, owner, token, ttl, expires) VALUES ('k', x'00', 1, 1, UTC_TIMESTAMP(6))"));
                        let asked = request("k", mode, 60).without_waiting();
                        let answer = locks.acquire(asked).await.expect("it runs");
                        let guard = answer.unwrap_or_else(|| {
                            panic!("{vendor:?}, {hold:?}: {mode:?} after {dead}")
                        });
                        guard.release().await.expect("it runs");
                    }
                }
            }
        }
    });
}

/// A holder that gets the key while a request waits for its row excludes that request.
#[test]
fn who_waits_for_a_row_sees_the_holders_of_after_the_wait() {
    steady(async || {
        for vendor in SqlVendor::available() {
            let server = SqlServer::start(vendor);
            for hold in BOTH {
                let locks = connect(&server, hold).await;
                let key = format!("{hold:?}");
                let first = take_soon(&locks, exclusive(&key, LONG)).await;
                first.release().await.expect("it runs");
                let mut theirs = server.session();
                let row = row(&key);
                theirs.run(&format!("SET SESSION TRANSACTION ISOLATION LEVEL READ COMMITTED; BEGIN; SELECT k FROM locks WHERE k = {row} FOR UPDATE"));
                let taking = locks.acquire(
                    exclusive(&key, LONG).with_wait(Wait::within(Duration::from_millis(1500))),
                );
                let entering = async {
                    sleep(Duration::from_millis(300)).await;
                    theirs.run(&format!("INSERT INTO locks_holders (k, owner, token, ttl, expires) VALUES ({row}, x'00', 1, 60000000, UTC_TIMESTAMP(6) + INTERVAL 1 MINUTE); UPDATE locks SET mode = 's', owner = NULL, expires = UTC_TIMESTAMP(6) WHERE k = {row}; COMMIT"));
                };
                let (answer, ()) = tokio::join!(taking, entering);
                let answer = answer.expect("busy is no error");
                assert_excluded!(answer.is_none(), "{vendor:?}, {hold:?}");
            }
        }
    });
}

#[test]
fn readers_that_were_renewed_together_and_cut_off_are_over_before_a_writer_gets_in() {
    steady(async || {
        for vendor in SqlVendor::available() {
            let server = SqlServer::start(vendor);
            let proxy = Proxy::before(server.port());
            let config = MySqlConfig::new(server.url().replace(
                &format!(":{}/", server.port()),
                &format!(":{}/", proxy.port()),
            ));
            let cut_off = MySqlLock::connect(config).await.expect("it runs");
            let guards = pairs(&cut_off, 4).await;
            // After this time all holds have been renewed together.
            sleep(Duration::from_millis(2300)).await;
            proxy.refuse();
            proxy.all().cut();
            let direct = connect(&server, MySqlHold::Lease).await;
            let writing = guards.chunks(2).map(async |pair| {
                let key = pair[0].key().as_str();
                let request = exclusive(key, LONG).with_wait(Wait::within(SECOND * 12));
                let next = direct.acquire(request).await.expect("it runs");
                let next = next.expect("free after the last holder");
                let held = pair.iter().filter(|guard| guard.is_held()).count();
                assert_excluded!(held == 0, "{vendor:?}, {key}");
                next.release().await.expect("it runs");
            });
            join_all(writing).await;
        }
    });
}
