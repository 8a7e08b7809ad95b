//! A server whose wall clock is set while locks are held.

use std::time::Duration;

use lock_core::{DistributedLock, LossReason, Wait};
use lock_mysql::MySqlHold;
use lock_testkit::servers::{SqlServer, SqlVendor};
use lock_testkit::steady;
use tokio::time::{Instant, sleep, timeout};

use crate::by_hand;
use crate::{BOTH, LONG, PROMPT, connect, exclusive, is_free, take, take_soon};

const HOUR: Duration = Duration::from_secs(3600);
const TTL: Duration = Duration::from_secs(3);

#[test]
fn a_clock_that_is_set_back_costs_no_hold() {
    steady(async || {
        let server = SqlServer::start_with_settable_clock::<&str>(SqlVendor::MariaDb, &[]);
        for hold in BOTH {
            let (locks, other) = (connect(&server, hold).await, connect(&server, hold).await);
            let guard = take(&locks, "k", TTL).await;
            server.set_clock_back(HOUR);
            sleep(TTL * 2).await;
            assert!(guard.is_held(), "{hold:?}");
            lock_testkit::assert_excluded!(!is_free(&other, "k").await, "{hold:?}");
            guard.release().await.expect("it runs");
            let next = take_soon(&other, exclusive("k", LONG)).await;
            next.release().await.expect("it runs");
            server.set_clock_back(Duration::ZERO);
        }
    });
}

#[test]
fn a_clock_that_is_set_ahead_ends_leases_and_no_row_lock() {
    steady(async || {
        let server = SqlServer::start_with_settable_clock::<&str>(SqlVendor::MariaDb, &[]);
        let leases = connect(&server, MySqlHold::Lease).await;
        let rows = connect(&server, MySqlHold::Row).await;
        let (lease, row) = (
            take(&leases, "lease", TTL).await,
            take(&rows, "row", TTL).await,
        );
        server.set_clock_ahead(HOUR);
        let lost = timeout(PROMPT, lease.lost()).await.expect("it is told");
        assert_eq!(lost, LossReason::Removed);
        assert!(take(&leases, "lease", TTL).await.token() > lease.token());
        sleep(TTL * 2).await;
        assert!(row.is_held());
        let other = connect(&server, MySqlHold::Row).await;
        lock_testkit::assert_excluded!(!is_free(&other, "row").await);
    });
}

/// MariaDB measures waits for rows by the wall clock, so it ends them at once.
#[test]
fn a_wait_lasts_as_long_as_it_was_to_although_the_clock_is_set_back() {
    steady(async || {
        let server = SqlServer::start_with_settable_clock::<&str>(SqlVendor::MariaDb, &[]);
        for hold in BOTH {
            let locks = connect(&server, hold).await;
            let key = format!("{hold:?}");
            let theirs = by_hand::locking(&server, &key);
            let wait = Duration::from_secs(4);
            let begun = Instant::now();
            let waiting = locks.acquire(exclusive(&key, LONG).with_wait(Wait::within(wait)));
            let setting = async {
                sleep(Duration::from_millis(500)).await;
                server.set_clock_back(HOUR);
                sleep(Duration::from_secs(2)).await;
                drop(theirs);
            };
            let (answer, ()) = tokio::join!(waiting, setting);
            let guard = answer.expect("busy is no error");
            assert!(
                guard.is_some(),
                "{hold:?}: gave up after {:?}",
                begun.elapsed()
            );
            server.set_clock_back(Duration::ZERO);
        }
    });
}
