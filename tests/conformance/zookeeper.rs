//! The contract on ZooKeeper, with the store of the backend's own tests.

#[path = "../../lock-zookeeper/tests/conformance/permissions.rs"]
mod permissions;
#[expect(
    dead_code,
    unexpected_cfgs,
    reason = "the backend's own tests go more ways"
)]
#[path = "../../lock-zookeeper/tests/conformance/place.rs"]
mod place;
#[path = "../../lock-zookeeper/tests/conformance/store.rs"]
mod store;

use std::sync::Arc;

use lock_testkit::Case;
use polylock::DistributedLock;
use polylock::zookeeper::ZooKeeperConfig;

use self::place::Place;
use self::store::ZooKeeperStore;

async fn new_store(case: Case) -> ZooKeeperStore {
    ZooKeeperStore::for_case(case, Place::One)
}

/// False: the kit's child processes cannot connect through the facade.
const REACHED_BY_OTHERS: bool = false;

/// Connects a client for the store of the backend's own tests, through the facade.
async fn connect(plain: ZooKeeperConfig) -> Arc<dyn DistributedLock> {
    let url = format!("zookeeper://{}{}", plain.servers, plain.chroot);
    lock_testkit::answered(|| polylock::connect(url.clone())).await
}

lock_testkit::conformance!(new_store);
