//! Conformance cases on real servers: leases and row locks, on MariaDB, and on MySQL if it is
//! installed.
//!
//! They also run with holds kept by the caller, over TLS, and as a user with the documented rights
//! only.

mod access;
mod lease;
mod place;
mod row;

use std::sync::Arc;

use lock_core::{DistributedLock, Namespace};
use lock_mysql::{MySqlConfig, MySqlHold, MySqlLock};
use lock_testkit::answered;

async fn connect(config: MySqlConfig, namespace: &str) -> Arc<dyn DistributedLock> {
    Arc::new(open(config, namespace).await)
}

async fn open(config: MySqlConfig, namespace: &str) -> MySqlLock {
    let namespace = Namespace::new(namespace).expect("a case's name is one");
    let config = config.with_namespace(namespace);
    answered(|| MySqlLock::connect(config.clone())).await
}

/// True if another process can connect as a plain client.
const REACHED_BY_OTHERS: bool = true;

/// Connects another process by an address of [`Place::address`](place::Place::address).
async fn connect_as_told(address: String) -> MySqlLock {
    let words: Vec<&str> = address.split(' ').collect();
    let (hold, namespace, url) = match words[..] {
        ["lease", namespace, url] => (MySqlHold::Lease, namespace, url),
        ["row", namespace, url] => (MySqlHold::Row, namespace, url),
        _ => panic!("not how to hold, a namespace and a URL: {address}"),
    };
    open(MySqlConfig::new(url).with_hold(hold), namespace).await
}

lock_testkit::roles!(connect_as_told);

/// Defines the cases for one kind of hold at one place.
macro_rules! contract {
    ($name:ident, $store:path, $vendor:ident, $way:ident) => {
        mod $name {
            use lock_testkit::Case;
            use lock_testkit::servers::SqlVendor;

            use crate::place::{Place, Way};
            use $store as Store;

            async fn new_store(case: Case) -> Store {
                let (vendor, way) = (SqlVendor::$vendor, Way::$way);
                Store::for_case(case, Place { vendor, way })
            }

            lock_testkit::conformance!(
                new_store,
                if SqlVendor::available().contains(&SqlVendor::$vendor)
            );
        }
    };
}

contract!(lease_on_mariadb, crate::lease::LeaseStore, MariaDb, Plain);
contract!(lease_on_mysql, crate::lease::LeaseStore, MySql, Plain);
contract!(
    lease_kept_by_the_caller,
    crate::lease::LeaseStore,
    MariaDb,
    KeptByTheCaller
);
contract!(
    lease_limited_on_mariadb,
    crate::lease::LeaseStore,
    MariaDb,
    Limited
);
contract!(
    lease_limited_on_mysql,
    crate::lease::LeaseStore,
    MySql,
    Limited
);
contract!(lease_over_tls, crate::lease::LeaseStore, MariaDb, OverTls);
contract!(row_on_mariadb, crate::row::RowStore, MariaDb, Plain);
contract!(row_on_mysql, crate::row::RowStore, MySql, Plain);
contract!(
    row_kept_by_the_caller,
    crate::row::RowStore,
    MariaDb,
    KeptByTheCaller
);
contract!(row_limited, crate::row::RowStore, MariaDb, Limited);
