//! A cluster of its own behind a proxy.

use std::future::Future;
use std::time::Duration;

use lock_core::{DistributedLock, LockGuard, LockRequest};
use lock_etcd::{EtcdConfig, EtcdLock};
use lock_testkit::faults::{Connections, Proxy};
use lock_testkit::servers::EtcdCluster;
use lock_testkit::{answered, eventually};

use crate::{PROMPT, TTL};

pub(crate) struct Bed {
    pub(crate) cluster: EtcdCluster,
    pub(crate) proxy: Proxy,
}

impl Bed {
    pub(crate) fn new() -> Self {
        let cluster = EtcdCluster::start(1);
        let proxy = Proxy::before(cluster.first().port());
        Self { cluster, proxy }
    }

    /// Connects the client behind the proxy. At most one such client per test.
    pub(crate) async fn client(&self) -> EtcdLock {
        connect(format!("etcd://127.0.0.1:{}", self.proxy.port())).await
    }

    /// Connects a client that no fault reaches.
    pub(crate) async fn direct(&self) -> EtcdLock {
        connect(self.cluster.url()).await
    }

    /// Returns the first connection for takes and releases, which a client opens first.
    pub(crate) fn command(&self) -> Connections<'_> {
        self.proxy.nth(0)
    }

    /// Returns the first connection for keep-alives and watches.
    pub(crate) fn background(&self) -> Connections<'_> {
        self.proxy.nth(1)
    }

    pub(crate) fn keys(&self) -> Vec<String> {
        names(&self.cluster.control(&LIST))
    }

    /// Returns the keys without blocking the task, whose waiters are polled meanwhile.
    pub(crate) async fn listed(&self) -> Vec<String> {
        let mut command = self.cluster.control_command();
        command.args(LIST);
        let listing = tokio::task::spawn_blocking(move || command.output()).await;
        let listed = listing.expect("no panic").expect("etcdctl runs");
        assert!(listed.status.success(), "{listed:?}");
        names(&String::from_utf8(listed.stdout).expect("keys are text"))
    }

    pub(crate) fn leases(&self) -> usize {
        let printed = self.cluster.control(&["lease", "list"]);
        // The first line is the number of leases.
        printed.lines().skip(1).count()
    }

    /// Waits for `count` keys while `waiting` waits on: a waiter that is not polled loses its place.
    ///
    /// # Panics
    ///
    /// If `waiting` ends first.
    pub(crate) async fn has_keys_beside(&self, count: usize, waiting: impl Future) {
        tokio::select! {
            _ = waiting => panic!("it was to wait for {count} keys"),
            () = self.has_keys(count) => {}
        }
    }

    pub(crate) async fn has_keys(&self, count: usize) {
        let has = || async { self.listed().await.len() == count };
        eventually(PROMPT, &format!("{count} keys"), has).await;
    }
}

const LIST: [&str; 4] = ["get", "--prefix", "", "--keys-only"];

fn names(printed: &str) -> Vec<String> {
    let lines = printed.lines().filter(|line| !line.is_empty());
    lines.map(str::to_owned).collect()
}

async fn connect(url: String) -> EtcdLock {
    let config = EtcdConfig::new(url);
    answered(|| EtcdLock::connect(config.clone())).await
}

pub(crate) fn request(key: &str) -> LockRequest {
    LockRequest::exclusive(key).expect("a key").with_ttl(TTL)
}

/// Takes a lock that is free.
pub(crate) async fn take(locks: &EtcdLock, key: &str) -> LockGuard {
    let request = request(key).without_waiting();
    let guard = locks.acquire(request).await.expect("the server runs");
    guard.expect("free")
}

/// The time in which a waiter enters the queue and sees that the key stays held.
pub(crate) const BRIEFLY: Duration = Duration::from_millis(500);
