//! The conformance cases on real servers: one server, and an ensemble of three.
//!
//! They also run with holds kept by the caller, over TLS, and as a user with only the documented
//! permissions.

mod permissions;
mod place;
mod store;

use std::sync::Arc;

use lock_core::DistributedLock;
use lock_testkit::answered;
use lock_zookeeper::{ZooKeeperConfig, ZooKeeperLock};

async fn connect(config: ZooKeeperConfig) -> Arc<dyn DistributedLock> {
    Arc::new(open(config).await)
}

async fn open(config: ZooKeeperConfig) -> ZooKeeperLock {
    answered(|| ZooKeeperLock::connect(config.clone())).await
}

/// True if another process can connect to a place with one server.
const REACHED_BY_OTHERS: bool = true;

/// Connects another process to the chroot and servers in `address`.
async fn connect_as_told(address: String) -> ZooKeeperLock {
    let (chroot, servers) = address.split_once(' ').expect("two words");
    open(ZooKeeperConfig::new(servers).with_chroot(chroot)).await
}

lock_testkit::roles!(connect_as_told);

/// Defines a module with all cases at one place.
macro_rules! contract {
    ($name:ident, $place:ident) => {
        mod $name {
            use lock_testkit::Case;

            use crate::place::Place;
            use crate::store::ZooKeeperStore;

            async fn new_store(case: Case) -> ZooKeeperStore {
                ZooKeeperStore::for_case(case, Place::$place)
            }

            lock_testkit::conformance!(new_store);
        }
    };
}

contract!(one, One);
contract!(three, Three);
contract!(kept_by_the_caller, KeptByTheCaller);
contract!(limited, Limited);
#[cfg(feature = "tls")]
contract!(over_tls, OverTls);
