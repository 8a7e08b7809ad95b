//! Servers that are read-only, from the start or later, and servers with other unusable settings.

use std::time::Duration;

use lock_core::{DistributedLock, ErrorKind, LossReason};
use lock_mysql::{MySqlConfig, MySqlHold, MySqlLock};
use lock_testkit::servers::{SqlServer, SqlVendor};
use lock_testkit::steady;
use tokio::time::{Instant, timeout};

use crate::{BOTH, LONG, PROMPT, connect_with, exclusive, take, take_soon};

fn plain_user(server: &SqlServer) -> String {
    server.execute("CREATE USER app@'127.0.0.1' IDENTIFIED BY 'p'; GRANT CREATE, SELECT, INSERT, UPDATE, DELETE ON locks.* TO app@'127.0.0.1'");
    format!("mysql://app:p@127.0.0.1:{}/locks", server.port())
}

#[test]
fn a_read_only_server_is_told_at_connect_whoever_connects() {
    steady(async || {
        for vendor in SqlVendor::available() {
            let server = SqlServer::start(vendor);
            let plain = plain_user(&server);
            server.execute("SET GLOBAL read_only = 1");
            for url in [server.url(), plain] {
                let connecting = MySqlLock::connect(MySqlConfig::new(url));
                let error = connecting.await.expect_err("it takes no writes");
                assert_eq!(error.kind(), ErrorKind::Unavailable, "{error}");
                assert!(error.to_string().contains("read-only"), "{error}");
            }
        }
    });
}

#[test]
fn a_server_that_becomes_read_only_ends_leases_at_their_deadline() {
    steady(async || {
        const TTL: Duration = Duration::from_secs(2);
        for vendor in SqlVendor::available() {
            let server = SqlServer::start(vendor);
            let plain = plain_user(&server);
            let locks = connect_with(MySqlConfig::new(&plain)).await;
            let by_row = MySqlConfig::new(&plain).with_hold(MySqlHold::Row);
            let by_row = connect_with(by_row).await;
            let guard = take(&locks, "k", TTL).await;
            let row = take(&by_row, "row", TTL).await;
            // `SET GLOBAL read_only` waits for open transactions that write; a row lock does not
            // write.
            server.execute("SET GLOBAL read_only = 1");
            let begun = Instant::now();
            let lost = timeout(PROMPT, guard.lost()).await.expect("told");
            assert_eq!(lost, LossReason::Expired);
            assert!(begun.elapsed() < TTL, "{:?}", begun.elapsed());
            for locks in [&locks, &by_row] {
                let error = locks.acquire(exclusive("other", LONG)).await;
                let error = error.expect_err("broken is not busy");
                assert_eq!(error.kind(), ErrorKind::Unavailable, "{error}");
            }
            row.release().await.expect("the server runs");
            server.execute("SET GLOBAL read_only = 0");
            for (locks, key) in [(&locks, "k"), (&by_row, "row")] {
                drop(take_soon(locks, exclusive(key, LONG)).await);
            }
        }
    });
}

#[test]
fn a_binary_log_of_statements_is_told_at_connect() {
    steady(async || {
        for vendor in SqlVendor::available() {
            let statements = [
                "--log-bin=binary",
                "--server-id=1",
                "--binlog-format=STATEMENT",
            ];
            let server = SqlServer::start_with(vendor, &statements);
            let connecting = MySqlLock::connect(MySqlConfig::new(server.url()));
            let error = connecting.await.expect_err("it refuses what we write");
            assert_eq!(error.kind(), ErrorKind::Unsupported, "{error}");
            assert!(error.to_string().contains("ROW or MIXED"), "{error}");
        }
    });
}

#[test]
fn a_password_that_needs_tls_is_told() {
    steady(async || {
        if !SqlVendor::available().contains(&SqlVendor::MySql) {
            return;
        }
        let server = SqlServer::start_with(SqlVendor::MySql, &["--tls-version="]);
        let connecting = MySqlLock::connect(MySqlConfig::new(plain_user(&server)));
        let error = connecting.await.expect_err("the password is not sent");
        assert_eq!(error.kind(), ErrorKind::Config, "{error}");
        assert!(error.to_string().contains("turn TLS on"), "{error}");
    });
}

/// A denied user cannot check what became of cut-off requests, and need not wait for that.
#[test]
fn a_user_who_is_refused_from_now_on_is_told_so_at_once() {
    steady(async || {
        for vendor in SqlVendor::available() {
            let server = SqlServer::start(vendor);
            for hold in BOTH {
                let config = MySqlConfig::new(plain_user(&server)).with_hold(hold);
                let locks = MySqlLock::connect(config).await.expect("it may");
                let guard = take(&locks, "k", LONG).await;
                guard.release().await.expect("the server runs");
                server.execute("ALTER USER app@'127.0.0.1' IDENTIFIED BY 'another'");
                let list = "SELECT id FROM information_schema.processlist WHERE user = 'app'";
                for id in server.execute(list).lines() {
                    // The connection may have ended by itself.
                    let _ended = server.try_execute(&format!("KILL {id}"));
                }
                let asking = timeout(Duration::from_secs(1), locks.acquire(exclusive("k", LONG)));
                let answer = asking.await.expect("it is told at once");
                let error = answer.expect_err("it may not any more");
                assert_eq!(
                    error.kind(),
                    ErrorKind::Denied,
                    "{vendor:?}, {hold:?}: {error}"
                );
                server.execute("DROP USER app@'127.0.0.1'");
            }
        }
    });
}

/// No request is left under way that the next try would wait for.
#[test]
fn a_take_that_is_denied_leaves_nothing_to_clean_up() {
    steady(async || {
        for vendor in SqlVendor::available() {
            let server = SqlServer::start(vendor);
            drop(connect_with(MySqlConfig::new(server.url())).await);
            server.execute("CREATE USER ro@'127.0.0.1'; GRANT SELECT ON locks.* TO ro@'127.0.0.1'");
            let url = format!("mysql://ro@127.0.0.1:{}/locks", server.port());
            let locks = connect_with(MySqlConfig::new(url)).await;
            let begun = Instant::now();
            for _ in 0..3 {
                let error = locks.acquire(exclusive("k", LONG)).await;
                let error = error.expect_err("it may not write");
                assert_eq!(error.kind(), ErrorKind::Denied, "{error}");
            }
            assert!(
                begun.elapsed() < Duration::from_millis(1500),
                "{:?}",
                begun.elapsed()
            );
            locks.shutdown(PROMPT).await.expect("nothing is under way");
        }
    });
}

#[test]
fn takes_that_need_a_connection_are_denied_at_once_each_time() {
    steady(async || {
        for vendor in SqlVendor::available() {
            let server = SqlServer::start(vendor);
            let locks = connect_with(MySqlConfig::new(plain_user(&server))).await;
            server.execute("ALTER USER app@'127.0.0.1' IDENTIFIED BY 'another'");
            for _ in 0..2 {
                let asking = timeout(Duration::from_secs(1), locks.acquire(exclusive("k", LONG)));
                let answer = asking.await.expect("it is told at once");
                let error = answer.expect_err("it may not any more");
                assert_eq!(error.kind(), ErrorKind::Denied, "{vendor:?}: {error}");
            }
        }
    });
}
