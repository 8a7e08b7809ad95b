//! Tokens grow, whoever takes the key next, and in which way.

use std::time::Duration;

use lock_mysql::MySqlHold;
use lock_testkit::servers::{SqlServer, SqlVendor};

use crate::outages::kill_all;
use crate::{BOTH, LONG, connect, exclusive, take_soon};

#[tokio::test(flavor = "multi_thread")]
async fn tokens_grow_when_leases_and_row_locks_take_turns() {
    for vendor in SqlVendor::available() {
        let server = SqlServer::start(vendor);
        let (mut locks, mut last) = (Vec::new(), 0);
        for hold in [BOTH, BOTH].concat() {
            locks.push(connect(&server, hold).await);
        }
        for round in 0..40 {
            let guard = take_soon(&locks[round % 4], exclusive("k", LONG)).await;
            let token = guard.token().value();
            assert!(
                token > last,
                "{vendor:?}: {token} after {last}, round {round}"
            );
            last = token;
            guard.release().await.expect("the server runs");
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn tokens_grow_although_the_clock_is_set_back() {
    let server = SqlServer::start_with_settable_clock::<&str>(SqlVendor::MariaDb, &[]);
    let leases = connect(&server, MySqlHold::Lease).await;
    let rows = connect(&server, MySqlHold::Row).await;
    // A lease writes its token down; a row lock does so now and then.
    let first = take_soon(&leases, exclusive("k", LONG)).await;
    let mut last = first.token().value();
    first.release().await.expect("the server runs");
    server.set_clock_back(Duration::from_secs(3600));
    for locks in [&leases, &rows, &rows, &rows, &leases, &rows] {
        let guard = take_soon(locks, exclusive("k", LONG)).await;
        let token = guard.token().value();
        assert!(token > last, "{token} after {last}");
        last = token;
        guard.release().await.expect("the server runs");
    }
}

/// A row lock that is not released writes nothing down.
#[tokio::test(flavor = "multi_thread")]
async fn tokens_grow_over_row_locks_that_were_cut_off_while_the_clock_stands_behind() {
    let server = SqlServer::start_with_settable_clock::<&str>(SqlVendor::MariaDb, &[]);
    let locks = connect(&server, MySqlHold::Row).await;
    let first = take_soon(&locks, exclusive("k", LONG)).await;
    let mut last = first.token().value();
    first.release().await.expect("the server runs");
    // As if that had been written down.
    server.execute(&format!("UPDATE locks SET token = {}", last >> 14));
    server.set_clock_back(Duration::from_secs(3600));
    for _ in 0..4 {
        let guard = take_soon(&locks, exclusive("k", LONG)).await;
        let token = guard.token().value();
        assert!(token > last, "{token} after {last}");
        last = token;
        kill_all(&server);
        drop(guard);
    }
}
