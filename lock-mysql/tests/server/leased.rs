//! Leases whose rows an operator has locked by hand. They count as held, without an error.

mod minimum;

use std::time::Duration;

use lock_core::{DistributedLock, Wait};
use lock_mysql::MySqlHold;
use lock_testkit::servers::{SqlServer, SqlVendor};
use lock_testkit::steady;
use tokio::time::Instant;

use crate::by_hand;
use crate::{LONG, connect, exclusive, take};

#[test]
fn a_row_that_is_locked_by_hand_is_held_and_no_error() {
    steady(async || {
        let server = SqlServer::start(SqlVendor::MariaDb);
        for hold in crate::BOTH {
            let locks = connect(&server, hold).await;
            let key = format!("{hold:?}");
            let _theirs = by_hand::locking(&server, &key);
            for ttl in [1, 30].map(Duration::from_secs) {
                let answer = locks.acquire(exclusive(&key, ttl)).await;
                lock_testkit::assert_excluded!(
                    answer.expect("held is no error").is_none(),
                    "{hold:?}"
                );
                for wait in [50, 700, 1500].map(Duration::from_millis) {
                    let begun = Instant::now();
                    let request = exclusive(&key, ttl).with_wait(Wait::within(wait));
                    let answer = locks.acquire(request).await;
                    let answer = answer.unwrap_or_else(|error| {
                        panic!("{hold:?}, ttl {ttl:?}, wait {wait:?}: {error}")
                    });
                    lock_testkit::assert_excluded!(answer.is_none());
                    let took = begun.elapsed();
                    assert!(
                        took < wait + Duration::from_secs(1),
                        "{hold:?} {ttl:?}: {took:?} of {wait:?}"
                    );
                }
            }
        }
    });
}

#[test]
fn rows_that_are_locked_by_hand_cost_no_other_hold_of_the_client() {
    steady(async || {
        const TTL: Duration = Duration::from_secs(3);
        let server = SqlServer::start(SqlVendor::MariaDb);
        let locks = connect(&server, MySqlHold::Lease).await;
        let mut touched = Vec::new();
        for number in 0..8 {
            touched.push(take(&locks, &format!("touched {number}"), TTL).await);
        }
        let mut others = Vec::new();
        for number in 0..20 {
            others.push(take(&locks, &format!("other {number}"), TTL).await);
        }
        let mut theirs = server.session();
        for guard in &touched {
            by_hand::lock(&mut theirs, guard.key().as_str());
        }
        tokio::time::sleep(TTL * 2).await;
        let lost = others.iter().filter(|guard| !guard.is_held()).count();
        assert_eq!(lost, 0, "lost with the rows that were locked");
        assert!(touched.iter().all(|guard| !guard.is_held()));
    });
}

#[test]
fn a_hold_whose_row_is_locked_for_a_moment_is_kept() {
    steady(async || {
        const TTL: Duration = Duration::from_secs(6);
        let server = SqlServer::start(SqlVendor::MariaDb);
        let locks = connect(&server, MySqlHold::Lease).await;
        let guard = take(&locks, "k", TTL).await;
        let theirs = by_hand::locking(&server, "k");
        // At least one renewal finds the row locked, and another renewal still has time.
        tokio::time::sleep(TTL * 7 / 12).await;
        assert!(guard.is_held(), "a row that is locked is not gone");
        drop(theirs);
        tokio::time::sleep(TTL * 7 / 12).await;
        assert!(guard.is_held(), "not renewed");
        guard.release().await.expect("the server runs");
    });
}

#[test]
fn releases_of_rows_that_are_locked_by_hand_cost_no_other_hold_of_the_client() {
    steady(async || {
        const TTL: Duration = Duration::from_secs(3);
        let server = SqlServer::start(SqlVendor::MariaDb);
        let locks = connect(&server, MySqlHold::Lease).await;
        let other = take(&locks, "other", TTL).await;
        let mut theirs = server.session();
        let mut touched = Vec::new();
        for number in 0..30 {
            let guard = take(&locks, &format!("touched {number}"), LONG).await;
            by_hand::lock(&mut theirs, guard.key().as_str());
            touched.push(guard);
        }
        drop(touched);
        tokio::time::sleep(TTL * 3).await;
        assert!(other.is_held(), "lost with the releases of others");
    });
}
