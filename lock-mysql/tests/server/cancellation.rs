//! Dropped acquisitions leave nothing on the server and delay no other client.

use std::time::Duration;

use lock_core::{DistributedLock, Wait};
use lock_mysql::MySqlHold;
use lock_testkit::servers::{SqlServer, SqlVendor};
use lock_testkit::{eventually, steady};
use tokio::task::JoinSet;
use tokio::time::Instant;

use crate::{BOTH, LONG, PROMPT, connect, exclusive, take};

/// Returns the number of connections that are executing a statement on the locks table.
fn busy(server: &SqlServer) -> usize {
    let list = server.execute("SELECT id, info FROM information_schema.processlist WHERE command = 'Query' AND id <> CONNECTION_ID() AND info LIKE '%locks%'");
    list.lines().count()
}

#[test]
fn a_hundred_cancelled_waits_keep_nobody_up() {
    steady(async || {
        for vendor in SqlVendor::available() {
            let server = SqlServer::start(vendor);
            for hold in BOTH {
                let holder = connect(&server, hold).await;
                let locks = connect(&server, hold).await;
                let mut held = Vec::new();
                for number in 0..50 {
                    held.push(take(&holder, &format!("{hold:?} {number}"), LONG).await);
                }
                let mut waits = JoinSet::new();
                for number in 0..100 {
                    let locks = locks.clone();
                    let key = format!("{hold:?} {}", number % 50);
                    waits.spawn(async move {
                        let request = exclusive(&key, LONG).with_wait(Wait::Forever);
                        let limit = Duration::from_millis(300);
                        tokio::time::timeout(limit, locks.acquire(request)).await
                    });
                }
                while let Some(cancelled) = waits.join_next().await {
                    assert!(cancelled.expect("no panic").is_err(), "they are held");
                }
                let begun = Instant::now();
                let other = take(&locks, &format!("{hold:?} other"), LONG).await;
                let took = begun.elapsed();
                assert!(
                    took < Duration::from_millis(500),
                    "{vendor:?} {hold:?}: {took:?}"
                );
                other.release().await.expect("the server runs");
                let limit = Duration::from_secs(2);
                eventually(limit, "nothing waits", || async { busy(&server) == 0 }).await;
                for guard in held {
                    guard.release().await.expect("the server runs");
                }
                for number in 0..50 {
                    let key = format!("{hold:?} {number}");
                    let request = exclusive(&key, LONG).with_wait(Wait::within(PROMPT));
                    let next = holder.acquire(request).await.expect("it runs");
                    drop(next.expect("no waiter got it"));
                }
            }
        }
    });
}

/// Without the cancellation, the server would end the third slice of the wait after 4 s.
#[test]
fn a_cancelled_wait_leaves_the_servers_queue_before_its_slice_ends() {
    steady(async || {
        for vendor in SqlVendor::available() {
            let server = SqlServer::start(vendor);
            let holder = connect(&server, MySqlHold::Row).await;
            let locks = connect(&server, MySqlHold::Row).await;
            let held = take(&holder, "k", LONG).await;
            let request = exclusive("k", LONG).with_wait(Wait::Forever);
            let mut waiting = Box::pin(locks.acquire(request));
            let third_slice = Duration::from_millis(3500);
            let waited = tokio::time::timeout(third_slice, &mut waiting).await;
            assert!(waited.is_err(), "it is held");
            assert_eq!(busy(&server), 1, "{vendor:?}");
            drop(waiting);
            let limit = Duration::from_millis(1500);
            eventually(limit, "nothing waits", || async { busy(&server) == 0 }).await;
            held.release().await.expect("the server runs");
        }
    });
}

#[test]
fn acquisitions_cancelled_while_the_server_stands_still_leave_nothing() {
    steady(async || {
        let server = SqlServer::start(SqlVendor::MariaDb);
        for hold in BOTH {
            let locks = connect(&server, hold).await;
            take(&locks, "warm", LONG)
                .await
                .release()
                .await
                .expect("it runs");
            server.freeze();
            let mut tasks = JoinSet::new();
            for number in 0..100 {
                let (locks, key) = (locks.clone(), format!("{hold:?} {number}"));
                tasks.spawn(async move {
                    let limit = Duration::from_millis(50 + number % 400);
                    let request = exclusive(&key, LONG);
                    tokio::time::timeout(limit, locks.acquire(request)).await
                });
            }
            while let Some(cancelled) = tasks.join_next().await {
                if let Ok(answer) = cancelled.expect("no panic") {
                    answer.expect_err("frozen is not busy");
                }
            }
            server.thaw();
            let other = connect(&server, hold).await;
            for number in 0..100 {
                let request = exclusive(&format!("{hold:?} {number}"), LONG);
                let request = request.with_wait(Wait::within(PROMPT));
                let next = other.acquire(request).await.expect("it runs");
                drop(next.unwrap_or_else(|| panic!("{hold:?} {number} stays locked")));
            }
        }
    });
}
