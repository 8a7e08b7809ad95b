//! Behavior specific to ZooKeeper, on real servers.

mod access;
mod batches;
mod crowds;
mod curator;
mod elections;
mod foreign;
mod herd;
mod kazoo;
mod limits;
mod messages;
mod names;
mod residue;
mod runs;
mod sessions;
mod takeover;
#[cfg(feature = "tls")]
mod tls;
mod ttls;
mod unreported;

use std::time::Duration;

use lock_core::{DistributedLock, LockGuard, LockRequest, Mode, Wait};
use lock_testkit::answered;
use lock_testkit::servers::ZooKeeperServer;
use lock_zookeeper::zookeeper_client::{Client, Error};
use lock_zookeeper::{ZooKeeperConfig, ZooKeeperLock};

/// The time that a few round trips may take on a busy machine.
const PROMPT: Duration = Duration::from_secs(10);

async fn connect(server: &ZooKeeperServer, chroot: &str) -> ZooKeeperLock {
    let config = ZooKeeperConfig::new(server.address()).with_chroot(chroot);
    answered(|| ZooKeeperLock::connect(config.clone())).await
}

/// Connects the operator.
async fn admin(server: &ZooKeeperServer) -> Client {
    let client = Client::connect(&server.address()).await;
    client.expect("the server runs")
}

/// Returns the children of a node, or none if the node does not exist.
async fn children(admin: &Client, node: &str) -> Vec<String> {
    match admin.list_children(node).await {
        Ok(children) => children,
        Err(Error::NoNode) => Vec::new(),
        Err(error) => panic!("{node} cannot be listed: {error}"),
    }
}

fn request(key: &str, mode: Mode) -> LockRequest {
    LockRequest::new(key.try_into().expect("a key"), mode)
}

/// Takes a lock that is free.
async fn take(locks: &ZooKeeperLock, request: LockRequest) -> LockGuard {
    let guard = locks.acquire(request.with_wait(Wait::No)).await;
    guard.expect("the server runs").expect("free")
}
