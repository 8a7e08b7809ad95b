//! Servers with unusual session defaults. The client sets up its sessions as locks need them.

use std::time::Duration;

use lock_core::backend::Released;
use lock_core::{DistributedLock, DistributedLockExt, Mode};
use lock_mysql::{MySqlConfig, MySqlHold, MySqlLock};
use lock_testkit::servers::{SqlServer, SqlVendor};
use lock_testkit::steady;
use tokio::time::sleep;

use crate::{BOTH, LONG, connect_with, exclusive, is_free, take, take_soon};

const TTL: Duration = Duration::from_secs(3);

/// Asserts that two clients exclude each other, keep their holds, and release them.
async fn assert_in_order(what: &str, url: &str) {
    for hold in BOTH {
        let config = || MySqlConfig::new(url).with_hold(hold);
        let (ours, theirs) = (connect_with(config()).await, connect_with(config()).await);
        let guard = take_soon(&ours, exclusive("k", TTL)).await;
        let mut others = Vec::new();
        for number in 0..5 {
            let request = exclusive(&format!("other {number}"), TTL);
            others.push(take_soon(&ours, request).await);
        }
        lock_testkit::assert_excluded!(!is_free(&theirs, "k").await, "{what}, {hold:?}");
        sleep(TTL * 3 / 2).await;
        assert!(guard.is_held(), "{what}, {hold:?}: not renewed");
        assert!(others.iter().all(lock_core::LockGuard::is_held), "{what}");
        lock_testkit::assert_excluded!(!is_free(&theirs, "k").await, "{what}, {hold:?}: not kept");
        let released = guard.release().await.expect("the server runs");
        assert_eq!(released, Released::Released, "{what}, {hold:?}");
        let next = take(&theirs, "k", LONG).await;
        next.release().await.expect("the server runs");
        in_other_modes(&ours, &theirs, hold).await;
    }
}

async fn in_other_modes(ours: &MySqlLock, theirs: &MySqlLock, hold: MySqlHold) {
    let shared = ours.lock_shared("shared").await.expect("it runs");
    let beside = theirs.lock_shared("shared").await.expect("it runs");
    lock_testkit::assert_excluded!(!is_free(theirs, "shared").await);
    for guard in [shared, beside] {
        guard.release().await.expect("the server runs");
    }
    if hold == MySqlHold::Lease {
        let two = Mode::permit(2).expect("permits");
        let request = crate::exclusive("permits", LONG);
        let request = lock_core::LockRequest::new(request.key, two).without_waiting();
        let mut held = Vec::new();
        for _ in 0..2 {
            held.push(take_soon(ours, request.clone()).await);
        }
        lock_testkit::assert_excluded!(theirs.acquire(request).await.expect("it runs").is_none());
    }
}

#[test]
fn odd_defaults_of_the_server_change_nothing() {
    steady(async || {
        for vendor in SqlVendor::available() {
            let server = SqlServer::start(vendor);
            server.execute("SET GLOBAL time_zone = '+13:00', GLOBAL sql_mode = 'ANSI_QUOTES,NO_BACKSLASH_ESCAPES,PIPES_AS_CONCAT,NO_UNSIGNED_SUBTRACTION', GLOBAL autocommit = 0, GLOBAL completion_type = 'CHAIN', GLOBAL innodb_lock_wait_timeout = 50, GLOBAL sql_select_limit = 1, GLOBAL div_precision_increment = 0, GLOBAL max_sort_length = 64, GLOBAL group_concat_max_len = 4; SET GLOBAL TRANSACTION ISOLATION LEVEL SERIALIZABLE, READ ONLY");
            if vendor == SqlVendor::MariaDb {
                server.execute("SET GLOBAL idle_transaction_timeout = 1");
            }
            assert_in_order("globals", &server.url()).await;
        }
    });
}

#[test]
fn clients_whose_sessions_begin_in_different_time_zones_exclude_each_other() {
    steady(async || {
        for vendor in SqlVendor::available() {
            let server = SqlServer::start(vendor);
            let mut clients = Vec::new();
            for zone in ["+13:00", "-11:00"] {
                server.execute(&format!("SET GLOBAL time_zone = '{zone}'"));
                // The client opens its connections here and keeps them.
                let locks = connect_with(MySqlConfig::new(server.url())).await;
                take(&locks, zone, LONG)
                    .await
                    .release()
                    .await
                    .expect("it runs");
                clients.push(locks);
            }
            for (ours, theirs) in [(0, 1), (1, 0)] {
                let guard = take(&clients[ours], "k", TTL).await;
                lock_testkit::assert_excluded!(
                    !is_free(&clients[theirs], "k").await,
                    "{vendor:?}: {ours}"
                );
                guard.release().await.expect("the server runs");
                let next = take(&clients[theirs], "k", TTL).await;
                next.release().await.expect("the server runs");
            }
        }
    });
}

#[test]
fn what_the_server_does_first_in_a_session_changes_nothing() {
    steady(async || {
        for vendor in SqlVendor::available() {
            let server = SqlServer::start(vendor);
            server.execute("CREATE USER app@'127.0.0.1' IDENTIFIED BY 'p'; GRANT CREATE, SELECT, INSERT, UPDATE, DELETE ON locks.* TO app@'127.0.0.1'");
            let url = format!("mysql://app:p@127.0.0.1:{}/locks", server.port());
            for first in [
                "SET SESSION time_zone = '-11:00', SESSION sql_mode = '', SESSION sql_safe_updates = 1, SESSION sql_select_limit = 1, SESSION max_join_size = 1, SESSION sql_big_selects = 0, SESSION autocommit = 0",
                "SET SESSION TRANSACTION ISOLATION LEVEL SERIALIZABLE, READ ONLY",
            ] {
                server.execute(&format!("SET GLOBAL init_connect = \"{first}\""));
                assert_in_order(first, &url).await;
            }
        }
    });
}

#[test]
fn connections_that_the_server_closes_after_a_second_are_no_error() {
    steady(async || {
        for vendor in SqlVendor::available() {
            let server = SqlServer::start(vendor);
            server.execute("SET GLOBAL wait_timeout = 1");
            for hold in BOTH {
                let config = MySqlConfig::new(server.url()).with_hold(hold);
                let locks = connect_with(config).await;
                let guard = take(&locks, "k", LONG).await;
                for _ in 0..3 {
                    sleep(Duration::from_millis(1500)).await;
                    let answer = locks.acquire(exclusive("other", LONG)).await;
                    let other = answer.expect("no error").expect("free");
                    other.release().await.expect("the server runs");
                }
                assert!(guard.is_held());
                assert_eq!(guard.release().await.expect("it runs"), Released::Released);
            }
        }
    });
}
