//! A cluster of its own with a proxy before it.

use std::time::Duration;

use lock_core::{DistributedLock, LockGuard, LockRequest};
use lock_etcd::{EtcdConfig, EtcdLock};
use lock_testkit::faults::{Connections, Proxy};
use lock_testkit::servers::EtcdCluster;
use lock_testkit::{connected, eventually};

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

    /// The client behind the proxy; there is to be only one.
    pub(crate) async fn client(&self) -> EtcdLock {
        connect(format!("etcd://127.0.0.1:{}", self.proxy.port())).await
    }

    /// A client that no fault reaches.
    pub(crate) async fn direct(&self) -> EtcdLock {
        connect(self.cluster.url()).await
    }

    /// The first connection that takes and releases travel on: a client opens it first.
    pub(crate) fn command(&self) -> Connections<'_> {
        self.proxy.nth(0)
    }

    /// The first one on which leases are kept alive and keys are watched.
    pub(crate) fn background(&self) -> Connections<'_> {
        self.proxy.nth(1)
    }

    pub(crate) fn keys(&self) -> Vec<String> {
        let printed = self
            .cluster
            .control(&["get", "--prefix", "", "--keys-only"]);
        let lines = printed.lines().filter(|line| !line.is_empty());
        lines.map(str::to_owned).collect()
    }

    /// How many leases there are.
    pub(crate) fn leases(&self) -> usize {
        let printed = self.cluster.control(&["lease", "list"]);
        // The first line says how many there are.
        printed.lines().skip(1).count()
    }

    pub(crate) async fn has_keys(&self, count: usize) {
        let has = || async { self.keys().len() == count };
        eventually(PROMPT, &format!("{count} keys"), has).await;
    }
}

async fn connect(url: String) -> EtcdLock {
    let config = EtcdConfig::new(url);
    connected(|| EtcdLock::connect(config.clone())).await
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

/// Long enough to enter the queue, and to see that the key stays held.
pub(crate) const BRIEFLY: Duration = Duration::from_millis(500);
