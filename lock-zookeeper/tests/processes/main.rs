//! What it takes other processes to show: holders and waiters that are killed or stand still, and
//! applications that block or drop their runtimes.

mod endings;
mod frozen;
mod killed;
mod names;

use std::time::Duration;

use lock_core::{LockRequest, Mode};
use lock_zookeeper::{ZooKeeperConfig, ZooKeeperLock};

/// How long anything may take that takes a few round trips, on a busy machine.
const PROMPT: Duration = Duration::from_secs(10);

const TTL: Duration = Duration::from_secs(3);

async fn connect(address: String) -> ZooKeeperLock {
    let config = ZooKeeperConfig::new(address);
    ZooKeeperLock::connect(config)
        .await
        .expect("the server runs")
}

lock_testkit::roles!(connect);

fn request(key: &str, mode: Mode) -> LockRequest {
    LockRequest::new(key.try_into().expect("a key"), mode).with_ttl(TTL)
}
