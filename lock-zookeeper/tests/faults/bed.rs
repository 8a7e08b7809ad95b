//! A server of its own behind a proxy.

use lock_core::{DistributedLock, LockGuard, LockRequest, Mode, Wait};
use lock_testkit::faults::Proxy;
use lock_testkit::servers::ZooKeeperServer;
use lock_testkit::{answered, eventually};
use lock_zookeeper::zookeeper_client::{Client, Error};
use lock_zookeeper::{ZooKeeperConfig, ZooKeeperLock};

use crate::PROMPT;

pub(crate) struct Bed {
    pub(crate) server: ZooKeeperServer,
    pub(crate) proxy: Proxy,
    admin: Client,
}

impl Bed {
    pub(crate) async fn new() -> Self {
        let server = ZooKeeperServer::start();
        let proxy = Proxy::before(server.member(0).port());
        let admin = Client::connect(&server.address()).await;
        Self {
            admin: admin.expect("the server runs"),
            server,
            proxy,
        }
    }

    /// Connects a client through the proxy.
    pub(crate) async fn client(&self) -> ZooKeeperLock {
        connect(format!("127.0.0.1:{}", self.proxy.port())).await
    }

    /// Connects a client that no fault reaches.
    pub(crate) async fn direct(&self) -> ZooKeeperLock {
        connect(self.server.address()).await
    }

    pub(crate) async fn operator(&self) -> Client {
        let client = Client::connect(&self.server.address()).await;
        client.expect("the server runs")
    }

    /// Returns the claims on `key`, of holders and waiters.
    pub(crate) async fn claims(&self, key: &str) -> Vec<String> {
        match self.admin.list_children(&format!("/{key}")).await {
            Ok(claims) => claims,
            Err(Error::NoNode) => Vec::new(),
            Err(error) => panic!("{key} cannot be listed: {error}"),
        }
    }

    /// Waits until the server has this number of watches. Many holds need several renewals to set
    /// them.
    pub(crate) async fn has_watches(&self, count: usize) {
        let member = self.server.member(0);
        eventually(6 * PROMPT, &format!("{count} watches"), || async {
            member.figure("zk_watch_count") == Some(count as u64)
        })
        .await;
    }

    /// Waits until `key` has this number of claims.
    pub(crate) async fn has(&self, key: &str, count: usize) {
        let what = format!("{count} claims on {key}");
        eventually(PROMPT, &what, || async {
            self.claims(key).await.len() == count
        })
        .await;
    }
}

pub(crate) async fn connect(address: String) -> ZooKeeperLock {
    let config = ZooKeeperConfig::new(address);
    answered(|| ZooKeeperLock::connect(config.clone())).await
}

pub(crate) fn modes() -> [Mode; 3] {
    let permit = Mode::permit(1).expect("a permit");
    [Mode::Exclusive, Mode::Shared, permit]
}

pub(crate) fn request(key: &str, mode: Mode) -> LockRequest {
    LockRequest::new(key.try_into().expect("a key"), mode)
}

/// Takes a lock that is free, or becomes free soon.
pub(crate) async fn take(locks: &ZooKeeperLock, request: LockRequest) -> LockGuard {
    let answer = locks.acquire(request.with_wait(Wait::within(PROMPT))).await;
    answer.expect("the server runs").expect("free in time")
}
