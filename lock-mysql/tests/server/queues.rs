//! Row locks that many tasks of one client wait for.

use std::time::Duration;

use lock_core::LockRequest;
use lock_mysql::MySqlHold;
use lock_testkit::servers::{SqlServer, SqlVendor};
use lock_testkit::{eventually, steady};
use tokio::task::JoinSet;
use tokio::time::{sleep, timeout};

use crate::{LONG, PROMPT, connect, exclusive, take, take_soon};

/// Returns true if a client is in the server's queue for a row.
fn waits(server: &SqlServer) -> bool {
    let list = server.execute("SHOW FULL PROCESSLIST");
    list.contains("FOR UPDATE") && !list.contains("NOWAIT")
}

fn selects(server: &SqlServer) -> u64 {
    let status = server.execute("SHOW GLOBAL STATUS LIKE 'Com_select'");
    let count = status
        .split_whitespace()
        .last()
        .expect("a name and a count");
    count.parse().expect("a number")
}

/// The next waiter does not check first if the row is free.
#[test]
fn the_next_in_line_goes_into_the_servers_queue_at_once() {
    steady(async || {
        let server = SqlServer::start(SqlVendor::MariaDb);
        let locks = connect(&server, MySqlHold::Row).await;
        let first = take(&locks, "k", LONG).await;
        let mut second = Box::pin(take_soon(&locks, exclusive("k", LONG)));
        let mut third = Box::pin(take_soon(&locks, exclusive("k", LONG)));
        let in_queue = async || eventually(PROMPT, "one waits", async || waits(&server)).await;
        tokio::select! {
            _ = &mut second => lock_testkit::assert_excluded!(false, "granted too early"),
            () = in_queue() => {}
        }
        // After one poll the third waiter is in the client's queue.
        let early = timeout(Duration::ZERO, &mut third).await;
        lock_testkit::assert_excluded!(early.is_err());
        let before = selects(&server);
        first.release().await.expect("the server runs");
        let second = second.await;
        tokio::select! {
            _ = &mut third => lock_testkit::assert_excluded!(false, "granted too early"),
            () = in_queue() => {}
        }
        assert_eq!(selects(&server) - before, 1);
        second.release().await.expect("the server runs");
        third.await.release().await.expect("the server runs");
    });
}

/// The readers overlap, and each holds for longer than the first slice of a wait on the server.
#[test]
fn a_writer_gets_in_between_readers_that_hold_for_long() {
    const HOLD: Duration = Duration::from_secs(3);
    steady(async || {
        for vendor in SqlVendor::available() {
            let server = SqlServer::start(vendor);
            let mut readers = JoinSet::new();
            for late in [Duration::ZERO, HOLD / 2] {
                let locks = connect(&server, MySqlHold::Row).await;
                let shared = LockRequest::shared("k").expect("a key").with_ttl(LONG);
                readers.spawn(async move {
                    sleep(late).await;
                    loop {
                        let guard = take_soon(&locks, shared.clone()).await;
                        sleep(HOLD).await;
                        guard.release().await.expect("the server runs");
                    }
                });
            }
            sleep(HOLD).await;
            let writer = connect(&server, MySqlHold::Row).await;
            let waiting = take_soon(&writer, exclusive("k", LONG));
            let guard = timeout(HOLD * 6, waiting).await.expect("it starves");
            assert!(guard.is_held());
        }
    });
}
