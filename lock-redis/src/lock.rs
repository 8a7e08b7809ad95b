//! The lock service on one server.

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use lock_core::backend::{Keeper, KeeperRuntime, LocalQueue, acquire};
use lock_core::{
    Capabilities, DistributedLock, LockGuard, LockRequest, Result, TTL_RANGE, TokenOrder,
};

use crate::RedisConfig;
use crate::acquire::RedisAttempt;
use crate::client::{Client, REPLY_LIMIT};
use crate::connection::connect::Connector;
use crate::error::BACKEND;

/// Latest time of a hold's first renewal. That renewal reads the key, so the server pushes its
/// removal from then on. The take does not track the key, which would cost every lock.
const FIRST_RENEWAL: Duration = Duration::from_millis(250);

/// Locks on one Redis or Valkey server, version 6 or later.
///
/// It supports all three modes, taken in one round trip each. Waiters of one process are served in
/// order. Among processes, the waiter that asks first after a release gets the lock. After 5 ms of
/// that, the longest waiter of another process or mode has its turn. Once the key is free it is
/// reserved for that waiter for up to 10 ms. Readers and permits do not join the present holders
/// before. Other polylock clients, including tries, then get "held". Other lock programs and
/// earlier versions ignore the reservation.
///
/// Without `CLIENT TRACKING` on the server, or without the permission for it, waiters poll every
/// 100 ms or more often. The next renewal detects a removed hold. `capabilities().push` is false
/// there.
///
/// A request without a wait fails if the server has not answered within a second (a third of the
/// ttl, if less). A wait outlasts an unreachable server until the wait ends; a wait without a
/// limit, for 30 seconds.
///
/// ```no_run
/// use lock_core::DistributedLockExt;
/// use lock_redis::{RedisConfig, RedisLock};
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> lock_core::Result<()> {
/// let locks = RedisLock::connect(RedisConfig::new("redis://127.0.0.1:6379")).await?;
/// let guard = locks.lock("nightly-report").await?;
/// guard.release().await?;
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Debug)]
pub struct RedisLock {
    client: Arc<Client>,
    keeper: Keeper,
    queue: LocalQueue,
}

impl RedisLock {
    /// Checks the configuration without connecting, and returns what is known of the capabilities.
    ///
    /// Certificate files are not read. `push` depends on the server, and is false.
    ///
    /// # Errors
    ///
    /// [`Config`](lock_core::ErrorKind::Config) for a malformed URL, or settings that contradict it.
    pub fn check(config: &RedisConfig) -> Result<Capabilities> {
        Connector::new(config)?;
        Ok(capabilities())
    }

    /// Connects to the server of `config`.
    ///
    /// # Errors
    ///
    /// - [`Config`](lock_core::ErrorKind::Config) for a malformed URL or certificate file.
    /// - [`Unavailable`](lock_core::ErrorKind::Unavailable) if the server does not answer within 2
    ///   s, or does not speak TLS where the URL requires it.
    /// - [`Denied`](lock_core::ErrorKind::Denied) if the server rejects user, password or client
    ///   certificate, or if its own certificate is not trusted.
    /// - [`Unsupported`](lock_core::ErrorKind::Unsupported) for a version before 6, a Redis
    ///   Cluster, a Sentinel, and a server without `EVAL` and `EVALSHA`.
    ///
    /// # Cancel safety
    ///
    /// Dropping the future closes the connections.
    pub async fn connect(config: RedisConfig) -> Result<Self> {
        Self::connect_over(Connector::new(&config)?, &config).await
    }

    /// Connects to the server of a client of the driver, with the other settings of `config`.
    ///
    /// Only address, database, user and password come from `client`. polylock opens connections of
    /// its own, one for each runtime that takes locks and one for the keeper: it needs RESP3, the
    /// server's pushes, and requests in a fixed order. So a connection of the application, however
    /// busy or blocked, delays no renewal, and all guarantees are those of
    /// [`connect`](Self::connect).
    ///
    /// `config` has no URL. For a client with TLS, certificates are in [`RedisConfig::tls`], since
    /// the driver does not hand out the client's.
    ///
    /// # Errors
    ///
    /// The errors of [`connect`](Self::connect), and [`Config`](lock_core::ErrorKind::Config):
    /// - for a URL in `config`.
    /// - for a client that does not verify its server, or has certificates that `config` lacks.
    ///
    /// # Cancel safety
    ///
    /// Dropping the future closes the connections.
    ///
    /// # Examples
    ///
    /// ```no_run
    /// use lock_redis::{RedisConfig, RedisLock, redis};
    ///
    /// # async fn example() -> Result<(), Box<dyn std::error::Error>> {
    /// let client = redis::Client::open("redis://cache.internal:6379")?;
    /// let locks = RedisLock::from_client(&client, RedisConfig::default()).await?;
    /// # Ok(())
    /// # }
    /// ```
    #[cfg(feature = "driver")]
    pub async fn from_client(client: &redis::Client, config: RedisConfig) -> Result<Self> {
        Self::connect_over(Connector::of_client(client, &config)?, &config).await
    }

    async fn connect_over(connector: Connector, config: &RedisConfig) -> Result<Self> {
        let mut capabilities = capabilities();
        let keeper_runtime = KeeperRuntime::at(config.keeper)?;
        let (client, found) = Client::connect(connector, config, &keeper_runtime).await?;
        let client = Arc::new(client);
        capabilities.push = found.pushes;
        capabilities.log_connected(&found.server, found.version.as_deref());
        let mut keeper = Keeper::new(capabilities, Arc::<Client>::clone(&client), keeper_runtime);
        if found.pushes {
            keeper = keeper.with_first_renewal(FIRST_RENEWAL);
        }
        client.notifications.set_recheck(keeper.recheck_handle());
        Ok(Self {
            client,
            keeper,
            queue: LocalQueue::new(),
        })
    }
}

/// Returns the capabilities on any server; `push` depends on the server.
fn capabilities() -> Capabilities {
    Capabilities::new(BACKEND)
        .with_shared()
        .with_permits()
        .with_upgrades()
        .with_slots()
        .with_inspect()
        .with_lock_delay(*TTL_RANGE.end())
        .with_min_hold(*TTL_RANGE.end())
        .with_tokens(TokenOrder::ServerClock)
}

#[async_trait]
impl DistributedLock for RedisLock {
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
                let attempt = RedisAttempt::new(&lock.client, &lock.queue, &request)?;
                acquire(
                    &lock.keeper,
                    &request,
                    Some(&lock.queue),
                    REPLY_LIMIT,
                    attempt,
                )
                .await
            }
        };
        self.keeper.acquire(request, take).await
    }

    async fn shutdown(&self, within: Duration) -> Result<()> {
        self.keeper.shutdown(within).await
    }
}
