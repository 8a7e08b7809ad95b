//! Tables of earlier versions, which have no column for the description of a holder.

use lock_core::{DistributedLock, DistributedLockExt, HolderInfo, LockRequest};
use lock_mysql::{MySqlConfig, MySqlHold, MySqlLock};
use lock_testkit::servers::{SqlServer, SqlVendor};
use lock_testkit::steady;

use crate::{LONG, connect, connect_with, exclusive, row};

const LOCKS: &str = include_str!("../../../src/schema/locks.sql");
const HOLDERS: &str = include_str!("../../../src/schema/locks_holders.sql");

/// The columns that earlier versions did not create.
const LATEST: [&str; 2] = ["holder ", "slot "];

/// Creates the tables as earlier versions did.
fn create(server: &SqlServer) {
    for statement in [LOCKS, HOLDERS] {
        let earlier: Vec<&str> = statement
            .lines()
            .filter(|line| {
                !LATEST
                    .iter()
                    .any(|name| line.trim_start().starts_with(name))
            })
            .collect();
        assert_ne!(
            earlier.len(),
            statement.lines().count(),
            "it has the column"
        );
        server.execute(&earlier.join("\n"));
    }
}

/// Takes a lock with a label, and returns what is shown of the holder.
async fn shown(locks: &MySqlLock, key: &str) -> HolderInfo {
    let request = exclusive(key, LONG).labelled("x").expect("a label");
    let taken = locks.acquire(request).await.expect("the server runs");
    let guard = taken.expect("free");
    let info = locks.inspect(key).await.expect("the server runs");
    assert_eq!(info.holders.len(), 1, "{info:?}");
    assert_eq!(info.holders[0].token, Some(guard.token()));
    guard.release().await.expect("the server runs");
    info.holders[0].clone()
}

#[test]
fn old_tables_get_the_column_if_the_client_may_add_it() {
    steady(async || {
        for vendor in SqlVendor::available() {
            let server = SqlServer::start(vendor);
            create(&server);
            server.execute("CREATE USER app@'127.0.0.1' IDENTIFIED BY 'p'; GRANT SELECT, INSERT, UPDATE, DELETE ON locks.* TO app@'127.0.0.1'");
            let url = format!("mysql://app:p@127.0.0.1:{}/locks", server.port());
            let powerless = connect_with(MySqlConfig::new(url)).await;
            let unknown = shown(&powerless, "k").await;
            assert_eq!((unknown.label, unknown.pid), (None, None), "{vendor:?}");
            let forbidden = MySqlConfig::new(server.url()).without_creating_tables();
            let forbidden = connect_with(forbidden).await;
            assert_eq!(shown(&forbidden, "k").await.label, None, "{vendor:?}");
            let by_row = connect(&server, MySqlHold::Row).await;
            by_row
                .lock("k")
                .await
                .expect("the server runs")
                .release()
                .await
                .unwrap();

            let locks = connect(&server, MySqlHold::Lease).await;
            let known = shown(&locks, "k").await;
            assert_eq!(known.label.as_deref(), Some("x"), "{vendor:?}");
            // The clients that connected before go on without the column.
            assert_eq!(shown(&powerless, "k").await.label, None, "{vendor:?}");
        }
    });
}

#[test]
fn the_column_may_be_missing_later() {
    steady(async || {
        for vendor in SqlVendor::available() {
            let server = SqlServer::start(vendor);
            let locks = connect(&server, MySqlHold::Lease).await;
            assert_eq!(shown(&locks, "k").await.label.as_deref(), Some("x"));
            server.execute("ALTER TABLE locks DROP COLUMN holder");
            assert_eq!(shown(&locks, "k").await.label, None, "{vendor:?}");
        }
    });
}

#[test]
fn the_description_of_an_earlier_holder_is_not_shown() {
    steady(async || {
        for vendor in SqlVendor::available() {
            let server = SqlServer::start(vendor);
            let locks = connect(&server, MySqlHold::Lease).await;
            assert_eq!(shown(&locks, "k").await.label.as_deref(), Some("x"));
            // An earlier version takes the key and does not know the column.
            let key = row("k");
            server.execute(&format!("UPDATE locks SET owner = REPEAT('a', 16), expires = UTC_TIMESTAMP(6) + INTERVAL 1 MINUTE WHERE k = {key}"));
            let info = locks.inspect("k").await.expect("the server runs");
            assert_eq!(info.holders.len(), 1, "{info:?}");
            assert_eq!(info.holders[0].label, None, "{vendor:?}");
        }
    });
}

#[test]
fn permits_of_tables_without_the_column_have_no_slots() {
    steady(async || {
        for vendor in SqlVendor::available() {
            let server = SqlServer::start(vendor);
            create(&server);
            let old = MySqlConfig::new(server.url()).without_creating_tables();
            let old = connect_with(old).await;
            assert!(!old.capabilities().slots, "{vendor:?}");
            let of_three = LockRequest::permit("k", 3).expect("not zero");
            let taken = async |locks: &MySqlLock| {
                let guard = locks.acquire(of_three.clone()).await;
                guard.expect("the server runs").expect("free")
            };
            let first = taken(&old).await;
            assert_eq!(first.slot(), None, "{vendor:?}");

            let new = connect(&server, MySqlHold::Lease).await;
            assert!(new.capabilities().slots, "{vendor:?}");
            let (second, third) = (taken(&new).await, taken(&new).await);
            assert_eq!(
                (second.slot(), third.slot()),
                (Some(0), Some(1)),
                "{vendor:?}"
            );
            server.execute("ALTER TABLE locks_holders DROP COLUMN slot");
            third.release().await.expect("the server runs");
            let later = taken(&new).await;
            assert_eq!(later.slot(), None, "{vendor:?}");
            assert!(first.is_held() && second.is_held() && later.is_held());
        }
    });
}
