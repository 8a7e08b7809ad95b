//! The lock service on one ensemble.

use std::ops::RangeInclusive;
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
use crate::client::{Client, check_chroot};
use crate::connection::connect::Connector;
use crate::error::BACKEND;
use crate::session::connection::longest_minimum;

/// Locks on one ZooKeeper ensemble, version 3.6 or later.
///
/// Grants all three modes in the order of the requests, also among processes. A take sends two
/// requests at once. The second request may leave a round trip later, since zookeeper-client 0.11
/// does not set `TCP_NODELAY`. The take of a key that was not used lately sends a third request,
/// which creates the node of the lock.
///
/// The ttl and the lock delay together are the timeout of a session. Servers limit that timeout
/// (`maxSessionTimeout`, twenty ticks by default: 40 s with ticks of 2 s). The claim of a waiter
/// that crashes also stays for the ttl and the lock delay.
///
/// A request without a wait fails if no server answers within two seconds (a third of the ttl, if
/// that is less). While no server can be reached, a wait continues until its end, or for 30 seconds
/// if it has no end. The waiter keeps its position in the queue as long as its session lives.
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
    /// Checks the configuration without connecting, and returns what is known of the capabilities.
    ///
    /// Certificate files are not read. The ranges of ttl, lock delay and minimum hold depend on the
    /// servers, and are the widest that a server can have.
    ///
    /// # Errors
    ///
    /// [`Config`](lock_core::ErrorKind::Config) for malformed servers, chroot or user.
    pub fn check(config: &ZooKeeperConfig) -> Result<Capabilities> {
        check_chroot(&config.chroot)?;
        Connector::new(config)?;
        Ok(capabilities(&TTL_RANGE))
    }

    /// Connects to the ensemble of `config`.
    ///
    /// # Errors
    ///
    /// - [`Config`](lock_core::ErrorKind::Config) for malformed servers, chroot, user or
    ///   certificate files.
    /// - [`Unavailable`](lock_core::ErrorKind::Unavailable) if no server answers within 4 s.
    /// - [`Denied`](lock_core::ErrorKind::Denied) if the servers refuse the client.
    /// - [`Unsupported`](lock_core::ErrorKind::Unsupported) if the servers grant no session as
    ///   short as 30 s.
    ///
    /// # Cancel safety
    ///
    /// Cancel safe. A session that is already being opened is closed later in the background.
    ///
    /// # Examples
    ///
    /// ```no_run
    /// use lock_zookeeper::{ZooKeeperConfig, ZooKeeperLock};
    ///
    /// # async fn example() -> lock_core::Result<()> {
    /// let config = ZooKeeperConfig::from_url("zookeeper://zk1,zk2,zk3/app/locks")?;
    /// let locks = ZooKeeperLock::connect(config).await?;
    /// # Ok(())
    /// # }
    /// ```
    pub async fn connect(config: ZooKeeperConfig) -> Result<Self> {
        let keeper_runtime = KeeperRuntime::at(config.keeper)?;
        let connecting = Client::connect(&config, &keeper_runtime, DEFAULT_TTL);
        let client = connecting
            .await
            .map_err(|error| error.with_operation("connect"))?;
        let client = Arc::new(client);
        let capabilities = capabilities(&client.bounds);
        client.log_connected(&capabilities);
        let keeper = Keeper::new(capabilities, Arc::<Client>::clone(&client), keeper_runtime);
        Ok(Self { client, keeper })
    }
}

/// Returns the capabilities on servers whose session timeouts have these bounds.
fn capabilities(bounds: &RangeInclusive<Duration>) -> Capabilities {
    Capabilities::new(BACKEND)
        .with_shared()
        .with_permits()
        .with_slots()
        .with_fairness()
        .with_push()
        .with_inspect()
        .with_tokens(TokenOrder::Always)
        .with_ttl(*bounds.start()..=*TTL_RANGE.end())
        .with_lock_delay(*bounds.end())
        .with_min_hold(longest_minimum(*bounds.end()))
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
                acquired.map_err(|error| lock.client.at_server(error))
            }
        };
        self.keeper.acquire(request, take).await
    }

    async fn shutdown(&self, within: Duration) -> Result<()> {
        self.keeper.shutdown(within).await
    }
}
