//! The contract, on real servers: on one and on an ensemble of three, with holds kept by the
//! caller, over TLS, and as a user with no more than the documented permissions.

mod permissions;
mod place;
mod store;

use std::sync::Arc;

use lock_core::DistributedLock;
use lock_zookeeper::{ZooKeeperConfig, ZooKeeperLock};

async fn connect(config: ZooKeeperConfig) -> Arc<dyn DistributedLock> {
    let locks = ZooKeeperLock::connect(config).await;
    Arc::new(locks.expect("the server runs"))
}

/// The cases at one place.
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
