//! The lock service on one ensemble.

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use lock_core::{
    Capabilities, DEFAULT_TTL, DistributedLock, Keeper, KeeperRuntime, LockGuard, LockRequest,
    Result, TTL_RANGE, TokenOrder, acquire,
};

use crate::ZooKeeperConfig;
use crate::acquire::{REPLY_LIMIT, ZooKeeperAttempt};
use crate::client::Client;
use crate::error::BACKEND;

/// Locks on one ZooKeeper ensemble, version 3.6 or later.
///
/// All three modes, granted in the order in which they were asked for, also among processes. They are taken by two
/// requests that are sent at once. (The driver does not set `TCP_NODELAY`, so the second request may leave a round trip
/// later.) A key that was not used before, or not lately, takes a third one, since the node of its lock has to be made first.
///
/// Ttl and lock delay are the timeout of a session, and together at most the longest one that the servers give
/// (`maxSessionTimeout`: twenty ticks, 40 s by default). The delay comes on top of the ttl also for a waiter that
/// crashes.
///
/// A request without a wait fails when no server has answered within two seconds (a third of the ttl, if
/// that is less). A wait rides out an ensemble that cannot be reached until the wait ends; one that has
/// no end of its own, for 30 seconds. It keeps its place in the queue as long as its session lives.
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
    /// [`Denied`](lock_core::ErrorKind::Denied) when they refuse us,
    /// [`Unsupported`](lock_core::ErrorKind::Unsupported) when they give no sessions as short as 30 s.
    ///
    /// # Cancel safety
    ///
    /// A session that is opened for nobody is closed after a while.
    pub async fn connect(config: ZooKeeperConfig) -> Result<Self> {
        let keeper_runtime = KeeperRuntime::at(config.keeper)?;
        let connecting = Client::connect(&config, &keeper_runtime, DEFAULT_TTL);
        let (client, bounds) = connecting
            .await
            .map_err(|error| error.with_operation("connect"))?;
        let client = Arc::new(client);
        let capabilities = Capabilities::new(BACKEND)
            .with_shared()
            .with_permits()
            .with_fairness()
            .with_push()
            .with_tokens(TokenOrder::Always)
            .with_ttl(*bounds.start()..=*TTL_RANGE.end())
            .with_lock_delay(*bounds.end());
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
