//! What it takes other processes to show: holders and waiters that are killed or stand still, runtimes
//! and programs that end in the middle of it.

mod endings;
mod frozen;
mod killed;
mod names;

use std::time::Duration;

use lock_core::{DistributedLock, LockGuard, LockRequest, Mode};
use lock_etcd::{EtcdConfig, EtcdLock};
use lock_testkit::servers::EtcdCluster;

async fn connect(url: impl Into<String>) -> EtcdLock {
    EtcdLock::connect(EtcdConfig::new(url))
        .await
        .expect("the cluster runs")
}

lock_testkit::roles!(connect);

fn request(key: &str, mode: Mode, ttl: Duration) -> LockRequest {
    let key = key.try_into().expect("a key");
    LockRequest::new(key, mode).with_ttl(ttl)
}

/// Takes a lock that is free.
async fn take(locks: &EtcdLock, key: &str, mode: Mode, ttl: Duration) -> LockGuard {
    let request = request(key, mode, ttl).without_waiting();
    let guard = locks.acquire(request).await.expect("the cluster runs");
    guard.expect("free")
}

/// The keys of all claims on `key`; with an empty one, of all claims on anything.
fn claims(cluster: &EtcdCluster, key: &str) -> Vec<String> {
    let prefix = if key.is_empty() {
        String::new()
    } else {
        format!("{key}/")
    };
    let printed = cluster.control(&["get", "--prefix", &prefix, "--keys-only"]);
    let lines = printed.lines().filter(|line| !line.is_empty());
    lines.map(str::to_owned).collect()
}
