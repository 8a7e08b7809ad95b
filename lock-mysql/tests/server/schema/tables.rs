//! Tables that cannot hold locks are refused at `connect`, before two clients could hold a lock.

use lock_core::{DistributedLock, ErrorKind};
use lock_mysql::{MySqlConfig, MySqlLock};
use lock_testkit::servers::{SqlServer, SqlVendor};
use lock_testkit::steady;

use crate::{LONG, connect_with, exclusive};

const LOCKS: &str = include_str!("../../../src/schema/locks.sql");
const HOLDERS: &str = include_str!("../../../src/schema/locks_holders.sql");

async fn complaint(server: &SqlServer) -> String {
    let config = MySqlConfig::new(server.url()).without_creating_tables();
    let error = MySqlLock::connect(config).await.expect_err("it is unfit");
    assert_eq!(error.kind(), ErrorKind::Config, "{error}");
    error.to_string()
}

fn create(server: &SqlServer, locks: &str, holders: &str) {
    server.execute("DROP TABLE IF EXISTS locks, locks_holders");
    server.execute(&format!("{locks};{holders}"));
}

#[test]
fn unfit_tables_are_told_with_what_is_wrong() {
    steady(async || {
        for vendor in SqlVendor::available() {
            let server = SqlServer::start(vendor);
            assert!(complaint(&server).await.contains("missing"));
            for (from, to, told) in [
                (
                    "ENGINE = InnoDB ROW_FORMAT = DYNAMIC",
                    "ENGINE = MEMORY",
                    "engine",
                ),
                ("PRIMARY KEY (k)", "KEY (k)", "primary key"),
                ("PRIMARY KEY (k)", "PRIMARY KEY (token)", "primary key"),
                ("VARBINARY(1024)", "VARCHAR(700)", "varbinary"),
                ("VARBINARY(1024)", "VARBINARY(255)", "varbinary"),
                ("owner   BINARY(16)", "owner   CHAR(16)", "owner"),
                ("token   BIGINT UNSIGNED", "token   INT UNSIGNED", "token"),
                ("DATETIME(6)", "DATETIME", "expires"),
                ("DATETIME(6)", "TIMESTAMP(6)", "expires"),
                ("PRIMARY KEY (k)", "PRIMARY KEY (k(10))", "primary key"),
            ] {
                assert!(LOCKS.contains(from), "{from}");
                create(&server, &LOCKS.replace(from, to), HOLDERS);
                let complaint = complaint(&server).await;
                assert!(complaint.contains(told), "{vendor:?}, {to}: {complaint}");
            }
            create(
                &server,
                LOCKS,
                &HOLDERS.replace("ENGINE = InnoDB ROW_FORMAT = DYNAMIC", "ENGINE = MEMORY"),
            );
            assert!(complaint(&server).await.contains("locks_holders"));
            create(&server, LOCKS, HOLDERS);
            let config = MySqlConfig::new(server.url()).without_creating_tables();
            MySqlLock::connect(config).await.expect("as documented");
        }
    });
}

#[test]
fn a_table_of_another_case_is_not_taken_for_ours() {
    steady(async || {
        for vendor in SqlVendor::available() {
            let server = SqlServer::start(vendor);
            for table in ["LOCKS", "locks"] {
                let locks = connect_with(MySqlConfig::new(server.url()).with_table(table)).await;
                let tried = locks.acquire(exclusive("k", LONG)).await;
                assert!(tried.expect("it runs").is_some(), "{vendor:?}: {table}");
            }
        }
    });
}
