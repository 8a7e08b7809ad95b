//! The lock service on one ensemble.

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use lock_core::backend::{Keeper, KeeperRuntime, acquire};
use lock_core::{
    Capabilities, DEFAULT_TTL, DistributedLock, LockGuard, LockRequest, Result, TTL_RANGE,
    TokenOrder,
};

use crate::ZooKeeperConfig;
use crate::acquire::{REPLY_LIMIT, ZooKeeperAttempt};
use crate::client::Client;
use crate::error::BACKEND;

/// Locks on one ZooKeeper ensemble, version 3.6 or later.
///
/// Grants all three modes in the order of the requests, also among processes. A take sends two
/// requests at once. (The driver does not set `TCP_NODELAY`, so the second request may leave a
/// round trip later.) For a key that was not used lately it sends a third one, which creates the
/// node of the lock.
///
/// Ttl and lock delay together are the timeout of a session, and at most the longest one that the
/// servers grant (`maxSessionTimeout`: twenty ticks, 40 s by default). The delay comes on top of
/// the ttl also for a waiter that crashes.
///
/// A request without a wait fails if no server answers within two seconds (a third of the ttl, if
/// that is less). A wait continues while no server can be reached, until its end; a wait without an
/// end, for 30 seconds. It keeps its position in the queue as long as its session lives.
///
/// ```no_run
/// use lock_core::DistributedLockExt;
/// use lock_zookeeper::{ZooKeeperConfig, ZooKeeperLock};
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> lock_core::Result<()> {
/// let config = ZooKeeperConfig::new("zk1:2181,zk2:2181,zk3:2181").with_chroot("/app/locks");
/// let locks = ZooKeeperLock::connect(config).await?;
/// let guard = locks.lock("nightly-report").await?;
/// guard.release().await?;
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Debug)]
pub struct ZooKeeperLock {
    client: Arc<Client>,
    keeper: Keeper,
}

impl ZooKeeperLock {
    /// Connects to the ensemble of `config`.
    ///
    /// # Errors
    ///
    /// [`Config`](lock_core::ErrorKind::Config) for malformed servers, chroot, user or certificate
    /// files, [`Unavailable`](lock_core::ErrorKind::Unavailable) when no server answers within 4 s,
    /// [`Denied`](lock_core::ErrorKind::Denied) when the servers refuse the client,
    /// [`Unsupported`](lock_core::ErrorKind::Unsupported) when they grant no sessions as short as
    /// 30 s.
    ///
    /// # Cancel safety
    ///
    /// Cancel safe: a session that is already being opened is closed after a while.
    pub async fn connect(config: ZooKeeperConfig) -> Result<Self> {
        let keeper_runtime = KeeperRuntime::at(config.keeper)?;
        let connecting = Client::connect(&config, &keeper_runtime, DEFAULT_TTL);
        let client = connecting
            .await
            .map_err(|error| error.with_operation("connect"))?;
        let client = Arc::new(client);
        let capabilities = Capabilities::new(BACKEND)
            .with_shared()
            .with_permits()
            .with_fairness()
            .with_push()
            .with_tokens(TokenOrder::Always)
            .with_ttl(*client.bounds.start()..=*TTL_RANGE.end())
            .with_lock_delay(*client.bounds.end());
        client.log_connected(&capabilities);
        let keeper = Keeper::new(capabilities, Arc::<Client>::clone(&client), keeper_runtime);
        Ok(Self { client, keeper })
    }
}

#[async_trait]
impl DistributedLock for ZooKeeperLock {
    fn capabilities(&self) -> Capabilities {
        self.keeper.capabilities()
    }

    fn keeper(&self) -> Option<&Keeper> {
        Some(&self.keeper)
    }

    async fn acquire(&self, request: LockRequest) -> Result<Option<LockGuard>> {
        let take = |request| {
            let lock = self.clone();
            async move {
                let attempt = ZooKeeperAttempt::new(&lock.client, &request);
                let acquired = acquire(&lock.keeper, &request, None, REPLY_LIMIT, attempt).await;
                acquired.map_err(|error| lock.client.located(error))
            }
        };
        self.keeper.acquire(request, take).await
    }

    async fn shutdown(&self, within: Duration) -> Result<()> {
        self.keeper.shutdown(within).await
    }
}
