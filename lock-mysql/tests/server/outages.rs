//! Servers that restart, end connections or stall.

use std::time::Duration;

use lock_core::backend::Released;
use lock_core::{DistributedLock, ErrorKind, LossReason, Wait};
use lock_mysql::MySqlHold;
use lock_testkit::servers::{SqlServer, SqlVendor};
use lock_testkit::steady;
use tokio::time::{Instant, timeout};

use crate::{BOTH, LONG, PROMPT, connect, exclusive, is_free, take, take_soon};

const TTL: Duration = Duration::from_secs(3);

/// Ends all connections except its own.
pub(crate) fn kill_all(server: &SqlServer) {
    let ids = server.execute("SELECT id FROM information_schema.processlist WHERE user = 'root' AND id <> CONNECTION_ID()");
    for id in ids.lines() {
        // The connection may have ended by itself.
        let _ended = server.try_execute(&format!("KILL {id}"));
    }
}

#[test]
fn leases_survive_that_every_connection_is_ended() {
    const TTL: Duration = Duration::from_secs(6);

    steady(async || {
        for vendor in SqlVendor::available() {
            let server = SqlServer::start(vendor);
            let locks = connect(&server, MySqlHold::Lease).await;
            let guard = take(&locks, "k", TTL).await;
            for _ in 0..10 {
                kill_all(&server);
                let lost = timeout(TTL / 10, guard.lost()).await;
                assert!(lost.is_err(), "{lost:?}");
                kill_all(&server);
                let answer = locks.acquire(exclusive("other", LONG)).await;
                let other = answer.expect("no error").expect("free");
                kill_all(&server);
                assert_eq!(other.release().await.expect("no error"), Released::Released);
            }
            assert_eq!(guard.release().await.expect("it runs"), Released::Released);
        }
    });
}

#[test]
fn a_row_lock_whose_connection_is_ended_is_told_within_a_second_whatever_its_ttl() {
    steady(async || {
        for vendor in SqlVendor::available() {
            let server = SqlServer::start(vendor);
            let (locks, other) = (
                connect(&server, MySqlHold::Row).await,
                connect(&server, MySqlHold::Row).await,
            );
            let guard = take(&locks, "k", LONG).await;
            kill_all(&server);
            let begun = Instant::now();
            let next = take_soon(&other, exclusive("k", LONG)).await;
            assert!(next.token() > guard.token(), "{vendor:?}");
            let lost = timeout(PROMPT, guard.lost()).await.expect("it is told");
            assert_eq!(lost, LossReason::Removed);
            assert!(begun.elapsed() < Duration::from_secs(1), "{begun:?}");
            assert_eq!(
                guard.release().await.expect("it runs"),
                Released::AlreadyLost
            );
            lock_testkit::assert_excluded!(!is_free(&locks, "k").await, "the next one's was freed");
        }
    });
}

#[test]
fn leases_survive_a_restart_and_row_locks_do_not() {
    steady(async || {
        for vendor in SqlVendor::available() {
            let server = SqlServer::start(vendor);
            let leases = connect(&server, MySqlHold::Lease).await;
            let rows = connect(&server, MySqlHold::Row).await;
            let lease = take(&leases, "lease", LONG).await;
            let row = take(&rows, "row", LONG).await;
            server.restart();
            let lost = timeout(Duration::from_secs(1), row.lost()).await;
            let lost = lost.expect("it is told, however long its ttl");
            assert_eq!(lost, LossReason::Removed);
            let next = take_soon(&rows, exclusive("row", LONG)).await;
            assert!(next.token() > row.token());
            lock_testkit::assert_excluded!(!is_free(&leases, "lease").await);
            assert!(lease.is_held());
            assert_eq!(lease.release().await.expect("it runs"), Released::Released);
        }
    });
}

#[test]
fn a_waiter_rides_out_a_restart() {
    steady(async || {
        let server = SqlServer::start(SqlVendor::MariaDb);
        for hold in BOTH {
            let (locks, other) = (connect(&server, hold).await, connect(&server, hold).await);
            let guard = take(&other, "k", TTL).await;
            let waiting = locks.acquire(exclusive("k", LONG).with_wait(Wait::within(PROMPT)));
            let restarting = async {
                tokio::time::sleep(Duration::from_millis(300)).await;
                server.restart();
                drop(guard);
            };
            let (answer, ()) = tokio::join!(waiting, restarting);
            let next = answer.expect("it is there again").expect("free");
            next.release().await.expect("it runs");
        }
    });
}

#[test]
fn a_server_that_stands_still_is_broken_and_not_busy() {
    steady(async || {
        for hold in BOTH {
            let server = SqlServer::start(SqlVendor::MariaDb);
            let locks = connect(&server, hold).await;
            let held = take(&locks, "held", LONG).await;
            let given_back = take(&locks, "given back", LONG).await;
            server.freeze();
            // At once: after a few silent heartbeats a row lock is released in another way.
            let error = given_back.release().await.expect_err("frozen is not free");
            assert_eq!(error.kind(), ErrorKind::Unavailable, "{error}");
            for wait in [0, 200, 700].map(Duration::from_millis) {
                let begun = Instant::now();
                let request = exclusive("free", LONG).with_wait(Wait::within(wait));
                let error = locks
                    .acquire(request)
                    .await
                    .expect_err("frozen is not busy");
                assert_eq!(error.kind(), ErrorKind::Unavailable, "{error}");
                let took = begun.elapsed();
                let limit = wait.max(Duration::from_secs(2)) + Duration::from_millis(700);
                assert!(took < limit, "{hold:?}: {took:?} of {wait:?}");
            }
            let begun = Instant::now();
            let error = held.release().await.expect_err("it does not answer");
            assert_eq!(error.kind(), ErrorKind::Unavailable, "{error}");
            assert!(begun.elapsed() < Duration::from_secs(2), "{hold:?}");
            server.thaw();
            for key in ["held", "given back", "free"] {
                drop(take_soon(&locks, exclusive(key, LONG)).await);
            }
        }
    });
}
