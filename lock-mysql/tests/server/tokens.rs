//! Tokens grow over all clients and kinds of hold.

use std::process::Command;
use std::time::Duration;

use lock_core::{FencingToken, LockGuard};
use lock_mysql::MySqlHold;
use lock_testkit::servers::{SqlServer, SqlVendor};
use lock_testkit::{eventually, steady};
use tokio::task::{JoinSet, spawn_blocking};

use crate::outages::kill_all;
use crate::{BOTH, LONG, PROMPT, connect, exclusive, take, take_soon};

#[test]
fn tokens_grow_when_leases_and_row_locks_take_turns() {
    steady(async || {
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
    });
}

#[test]
fn tokens_grow_although_the_clock_is_set_back() {
    steady(async || {
        let server = SqlServer::start_with_settable_clock::<&str>(SqlVendor::MariaDb, &[]);
        let leases = connect(&server, MySqlHold::Lease).await;
        let rows = connect(&server, MySqlHold::Row).await;
        // A lease writes its token to the row; a row lock does so only sometimes.
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
    });
}

/// A row lock that is not released writes no token to the row.
#[test]
fn tokens_grow_over_row_locks_that_were_cut_off_while_the_clock_stands_behind() {
    steady(async || {
        let server = SqlServer::start_with_settable_clock::<&str>(SqlVendor::MariaDb, &[]);
        let locks = connect(&server, MySqlHold::Row).await;
        let first = take_soon(&locks, exclusive("k", LONG)).await;
        let mut last = first.token().value();
        first.release().await.expect("the server runs");
        // Write the token, as some releases do.
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
    });
}

/// Reads the server's clock in the unit of grant numbers.
const GRANT_CLOCK: &str = "SELECT TIMESTAMPDIFF(MICROSECOND, '2025-01-01', UTC_TIMESTAMP(6)) DIV 4";

/// Starts servers that can read the clock within a statement, and servers that cannot.
fn servers() -> impl Iterator<Item = SqlServer> {
    let start = |vendor| {
        ["--sysdate-is-now=0", "--sysdate-is-now=1"]
            .map(|option| SqlServer::start_with(vendor, &[option]))
    };
    SqlVendor::available().into_iter().flat_map(start)
}

/// Returns the kinds of hold whose tokens can be compared with the server's clock.
///
/// Tokens of leases count on from the row. On servers that cannot read the clock within a
/// statement, only row locks reveal a stale clock.
fn holds(server: &SqlServer) -> Vec<MySqlHold> {
    let moves = server.execute("SELECT SLEEP(0.01) = 0 AND SYSDATE(6) > NOW(6)");
    if moves == "1" {
        BOTH.to_vec()
    } else {
        vec![MySqlHold::Row]
    }
}

/// Asserts that the token is not older than the reading `clock` of the server's clock.
fn assert_as_young_as(guard: &LockGuard, clock: &str, server: &SqlServer) {
    let unit = FencingToken::from_grant(1).expect("in range").value();
    let (granted, clock) = (guard.token().value() / unit, clock.parse::<u64>());
    let clock = clock.expect("a number");
    assert!(
        granted >= clock,
        "{:?}: a token from {} us before its grant",
        server.vendor(),
        (clock - granted) * 4
    );
}

/// While a request waits in the server, other clients may hold the key. The time of the grant
/// counts, not that of the request.
#[test]
fn the_token_of_a_row_lock_is_as_young_as_its_grant() {
    const WAITS: &str = "select count(*) from information_schema.processlist \
                         where id <> connection_id() and info like '%FOR UPDATE%'";
    steady(async || {
        for server in servers() {
            let locks = connect(&server, MySqlHold::Row).await;
            let first = take(&locks, "k", LONG).await;
            let other = connect(&server, MySqlHold::Row).await;
            let mut waiting = JoinSet::new();
            waiting.spawn(async move { take_soon(&other, exclusive("k", LONG)).await });
            eventually(PROMPT, "it waits", async || server.execute(WAITS) == "1").await;
            let clock = server.execute(GRANT_CLOCK);
            first.release().await.expect("the server runs");
            let guard = waiting
                .join_next()
                .await
                .expect("it waits")
                .expect("no panic");
            assert_as_young_as(&guard, &clock, &server);
        }
    });
}

#[test]
fn a_token_that_nobody_waits_for_is_as_young_as_its_grant() {
    const SLEEPS: &str =
        "select count(*) from information_schema.processlist where info = 'DO SLEEP(1)'";
    steady(async || {
        // On MariaDB a try does not wait for the table.
        for server in servers().filter(|server| server.vendor() == SqlVendor::MySql) {
            for hold in holds(&server) {
                let table = server.client_command();
                let locks = connect(&server, hold).await;
                let first = take(&locks, "k", LONG).await;
                first.release().await.expect("the server runs");
                // The locked table delays every request in the server before it has a row.
                let unlocked = spawn_blocking(move || lock_table_for_a_second(table));
                let locked = async || server.execute(SLEEPS) == "1";
                eventually(PROMPT, "the table is locked", locked).await;
                let guard = take(&locks, "k", LONG).await;
                let clock = unlocked.await.expect("it only waits");
                assert_as_young_as(&guard, &clock, &server);
                guard.release().await.expect("the server runs");
            }
        }
    });
}

/// Locks the table for a second, and returns the server's clock at the end.
fn lock_table_for_a_second(mut client: Command) -> String {
    let statements = format!("LOCK TABLES locks WRITE; DO SLEEP(1); {GRANT_CLOCK}");
    let output = client.args(["-N", "-e", &statements]).output();
    let output = output.expect("its client is installed");
    let text = String::from_utf8(output.stdout).expect("text");
    text.trim().to_owned()
}
