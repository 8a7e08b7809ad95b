//! Behavior specific to etcd, on real clusters.

mod access;
mod compaction;
mod conversions;
mod crowds;
mod inspection;
mod interoperability;
mod leaders;
mod leases;
mod limits;
mod messages;
mod minimum;
mod names;
mod outages;
mod queues;
mod removals;
mod runtimes;
mod terms;
#[cfg(feature = "tls")]
mod tls;

use std::future::Future;
use std::time::Duration;

use lock_core::{DistributedLock, LockGuard, LockRequest};
use lock_etcd::{EtcdConfig, EtcdLock};
use lock_testkit::servers::EtcdCluster;
use lock_testkit::{answered, eventually};
use tokio::task::JoinSet;
use tokio::time::timeout;

/// The time that a few round trips may take on a busy machine.
const PROMPT: Duration = Duration::from_secs(10);

async fn connect(url: impl Into<String>) -> EtcdLock {
    let config = EtcdConfig::new(url);
    answered(|| EtcdLock::connect(config.clone())).await
}

async fn lock_for(locks: &EtcdLock, key: &str, ttl: Duration) -> LockGuard {
    let request = LockRequest::exclusive(key)
        .expect("a key")
        .with_ttl(ttl)
        .without_waiting();
    let taken = locks.acquire(request).await;
    taken.expect("the cluster runs").expect("free")
}

/// Returns the keys that begin with `prefix`, in their order.
fn keys(cluster: &EtcdCluster, prefix: &str) -> Vec<String> {
    let printed = cluster.control(&["get", "--prefix", prefix, "--keys-only"]);
    let lines = printed.lines().filter(|line| !line.is_empty());
    lines.map(str::to_owned).collect()
}

/// Returns the ids of all leases, in hexadecimal.
fn leases(cluster: &EtcdCluster) -> Vec<String> {
    let printed = cluster.control(&["lease", "list"]);
    // The first line is the number of leases.
    printed.lines().skip(1).map(str::to_owned).collect()
}

/// Waits until the queue of `key` has this number of claims.
async fn queue_has(cluster: &EtcdCluster, key: &str, claims: usize) {
    let prefix = format!("{key}/");
    let has = || async { keys(cluster, &prefix).len() == claims };
    eventually(PROMPT, &format!("{claims} claims on {key}"), has).await;
}

/// Writes until the servers have reached their quota.
async fn fill(cluster: &EtcdCluster) {
    let much = "x".repeat(100_000);
    let is_full = || async {
        let mut filling = cluster.control_command();
        let filled = filling.args(["put", "fill", &much]).output();
        !filled.expect("etcdctl runs").status.success()
    };
    eventually(PROMPT, "the servers are full", is_full).await;
}

/// A task that runs beside the test, and ends when this value is dropped.
struct Beside<T>(JoinSet<T>);

impl<T: Send + 'static> Beside<T> {
    fn run(work: impl Future<Output = T> + Send + 'static) -> Self {
        let mut tasks = JoinSet::new();
        tasks.spawn(work);
        Self(tasks)
    }

    /// Returns the outcome of the task, within `PROMPT`.
    async fn outcome(&mut self) -> T {
        let outcome = timeout(PROMPT, self.0.join_next()).await;
        let outcome = outcome.expect("it takes too long").expect("asked once");
        outcome.expect("no panic")
    }
}
