//! Tables that are dropped while clients run, and tables that already exist.

use std::time::Duration;

use lock_core::{DistributedLock, ErrorKind, LossReason, Mode, Wait};
use lock_mysql::{MySqlConfig, MySqlHold, MySqlLock};
use lock_testkit::servers::{SqlServer, SqlVendor};
use lock_testkit::steady;
use tokio::time::timeout;

use crate::{BOTH, LONG, PROMPT, connect, connect_with, exclusive, take};

#[test]
fn tables_that_are_dropped_are_created_again() {
    steady(async || {
        for vendor in SqlVendor::available() {
            for dropped in ["locks", "locks_holders", "locks, locks_holders"] {
                let server = SqlServer::start(vendor);
                for hold in BOTH {
                    let locks = connect(&server, hold).await;
                    take(&locks, "k", LONG)
                        .await
                        .release()
                        .await
                        .expect("it runs");
                    server.execute(&format!("DROP TABLE {dropped}"));
                    for mode in [Mode::Shared, Mode::Exclusive] {
                        let mut request = exclusive("k", LONG);
                        request.mode = mode;
                        let answer = locks.acquire(request).await;
                        let guard = answer.expect("it is created again").expect("free");
                        guard.release().await.expect("it runs");
                    }
                }
            }
        }
    });
}

#[test]
fn leases_in_a_table_that_is_dropped_are_lost_and_waiters_go_on() {
    steady(async || {
        let server = SqlServer::start(SqlVendor::MariaDb);
        let locks = connect(&server, MySqlHold::Lease).await;
        let other = connect(&server, MySqlHold::Lease).await;
        let guard = take(&locks, "k", Duration::from_secs(6)).await;
        let waiting = other.acquire(exclusive("k", LONG).with_wait(Wait::within(PROMPT)));
        let dropping = async {
            tokio::time::sleep(Duration::from_millis(300)).await;
            server.execute("DROP TABLE locks, locks_holders");
            timeout(PROMPT, guard.lost()).await
        };
        let (next, lost) = tokio::join!(waiting, dropping);
        assert_eq!(lost.expect("it is told"), LossReason::Removed);
        drop(next.expect("it is created again").expect("free"));
    });
}

#[test]
fn a_table_that_is_dropped_is_told_where_none_is_to_be_created() {
    steady(async || {
        let server = SqlServer::start(SqlVendor::MariaDb);
        let creator = connect(&server, MySqlHold::Lease).await;
        for hold in BOTH {
            let config = MySqlConfig::new(server.url()).with_hold(hold);
            let locks = connect_with(config.without_creating_tables()).await;
            let guard = take(&locks, "k", LONG).await;
            guard.release().await.expect("it runs");
            server.execute("DROP TABLE locks");
            let error = locks.acquire(exclusive("k", LONG)).await;
            let error = error.expect_err("there is no table");
            assert_eq!(error.kind(), ErrorKind::Config, "{error}");
            assert!(error.to_string().contains("locks.locks"), "{error}");
            assert!(error.to_string().contains("create_table"), "{error}");
            take(&creator, "other", LONG)
                .await
                .release()
                .await
                .expect("it runs");
            take(&locks, "k", LONG)
                .await
                .release()
                .await
                .expect("it runs");
        }
    });
}

#[test]
fn nothing_is_created_where_the_tables_are() {
    const STATEMENTS: &str = "SELECT SUM(VARIABLE_VALUE) FROM information_schema.global_status WHERE VARIABLE_NAME LIKE 'Com\\_create\\_table'";

    steady(async || {
        let server = SqlServer::start(SqlVendor::MariaDb);
        let first = connect(&server, MySqlHold::Lease).await;
        server.execute("CREATE USER app@'127.0.0.1' IDENTIFIED BY 'p'; GRANT SELECT, INSERT, UPDATE, DELETE ON locks.locks TO app@'127.0.0.1'; GRANT SELECT, INSERT, UPDATE, DELETE ON locks.locks_holders TO app@'127.0.0.1'");
        let before = server.execute(STATEMENTS);
        let url = format!("mysql://app:p@127.0.0.1:{}/locks", server.port());
        for hold in BOTH {
            let config = MySqlConfig::new(&url).with_hold(hold);
            let locks = MySqlLock::connect(config).await.expect("no DDL is needed");
            take(&locks, "k", LONG)
                .await
                .release()
                .await
                .expect("it may");
        }
        assert_eq!(server.execute(STATEMENTS), before);
        drop(first);
        server.execute("DROP TABLE locks, locks_holders");
        let refused = MySqlLock::connect(MySqlConfig::new(&url)).await;
        let error = refused.expect_err("it may not create any");
        assert_eq!(error.kind(), ErrorKind::Denied, "{error}");
        assert!(error.to_string().contains("create the tables"), "{error}");
    });
}
