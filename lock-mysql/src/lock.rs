//! The lock service on one server.

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use lock_core::backend::{Keeper, KeeperRuntime, LocalQueue, acquire};
use lock_core::{
    Capabilities, DistributedLock, LockGuard, LockRequest, Result, TTL_RANGE, TokenOrder,
};

use crate::acquire::{MySqlAttempt, REPLY_LIMIT};
use crate::client::Client;
use crate::connection::connect::Connector;
use crate::error::BACKEND;
use crate::schema::names::Names;
use crate::{MySqlConfig, MySqlHold};

/// Locks on one MySQL (8.0 or later) or MariaDB (10.6 or later) server.
///
/// Waiters of one process are served in order of arrival. Processes take turns: a lease is kept for
/// a waiter that other clients overtook, and row locks have the server's own queue.
///
/// A request without a wait fails if the server does not answer within two seconds (a third of the
/// ttl, if that is less). A wait continues while the server cannot be reached, until its end; a
/// wait without an end, for 30 seconds.
///
/// # Examples
///
/// ```no_run
/// use lock_core::{DistributedLock, LockRequest};
/// use lock_mysql::{MySqlConfig, MySqlLock};
///
/// # async fn example() -> lock_core::Result<()> {
/// let config = MySqlConfig::new("mysql://locker:password@localhost/app");
/// let lock = MySqlLock::connect(config).await?;
/// if let Some(guard) = lock.acquire(LockRequest::exclusive("coupon/42")?).await? {
///     guard.release().await?;
/// }
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Debug)]
pub struct MySqlLock {
    client: Arc<Client>,
    keeper: Keeper,
    queue: LocalQueue,
}

impl MySqlLock {
    /// Checks the configuration without connecting, and returns the capabilities.
    ///
    /// # Errors
    ///
    /// [`Config`](lock_core::ErrorKind::Config) for a malformed URL, table name or certificate file,
    /// and for settings out of range.
    pub fn check(config: &MySqlConfig) -> Result<Capabilities> {
        Names::new(config)?;
        Connector::new(config)?;
        config.connections_max()?;
        config.checked_purge_after()?;
        Ok(capabilities(config.hold))
    }

    /// Connects to the server of `config`, and creates missing tables.
    ///
    /// # Errors
    ///
    /// - [`Config`](lock_core::ErrorKind::Config) for a malformed URL or table name, and for a
    ///   table that cannot hold locks safely.
    /// - [`Unavailable`](lock_core::ErrorKind::Unavailable) when the server accepts no connection
    ///   within 2 s, or does not answer within 5 s. Also when it takes no writes, or lacks the
    ///   required TLS.
    /// - [`Denied`](lock_core::ErrorKind::Denied) when the server refuses user or password, or its
    ///   certificate is not trusted.
    /// - [`Unsupported`](lock_core::ErrorKind::Unsupported) for a server that is too old, or cannot
    ///   hold locks safely.
    ///
    /// # Cancel safety
    ///
    /// Cancel safe: dropping the future closes the connections.
    ///
    /// # Examples
    ///
    /// ```no_run
    /// use lock_mysql::{MySqlConfig, MySqlLock};
    ///
    /// # async fn example() -> lock_core::Result<()> {
    /// let config = MySqlConfig::new("mysql://locker:password@localhost/app");
    /// let lock = MySqlLock::connect(config).await?;
    /// # Ok(())
    /// # }
    /// ```
    pub async fn connect(config: MySqlConfig) -> Result<Self> {
        Self::check(&config)?;
        Self::connect_over(Connector::new(&config)?, &config).await
    }

    /// Connects to the server of a pool of the driver, with the other settings of `config`, and
    /// creates missing tables.
    ///
    /// Only server, user, password, database and TLS come from the options of `pool`. polylock
    /// opens connections of its own, as many as [`connect`](Self::connect) does, and never takes
    /// one of the pool: its sessions have settings of their own, a row lock occupies its
    /// connection, and a pool that the application has exhausted would delay renewals. So all
    /// guarantees are those of [`connect`](Self::connect). Hooks of the pool are not called.
    ///
    /// `config` has no URL. Certificates in [`MySqlConfig::tls`] replace those of the pool.
    ///
    /// # Errors
    ///
    /// The errors of [`connect`](Self::connect), and [`Config`](lock_core::ErrorKind::Config):
    /// - for a URL in `config`.
    /// - for a pool that names no database, connects through a Unix socket, or requires TLS without
    ///   verifying the server.
    ///
    /// # Cancel safety
    ///
    /// Cancel safe: dropping the future closes the connections.
    ///
    /// # Examples
    ///
    /// ```no_run
    /// use lock_mysql::sqlx::MySqlPool;
    /// use lock_mysql::{MySqlConfig, MySqlLock};
    ///
    /// # async fn example() -> Result<(), Box<dyn std::error::Error>> {
    /// let pool = MySqlPool::connect("mysql://app:password@localhost/app").await?;
    /// let lock = MySqlLock::from_pool(&pool, MySqlConfig::default()).await?;
    /// # Ok(())
    /// # }
    /// ```
    #[cfg(feature = "driver")]
    pub async fn from_pool(pool: &sqlx::MySqlPool, config: MySqlConfig) -> Result<Self> {
        let connector = Connector::of_pool(&pool.connect_options(), &config)?;
        Self::connect_over(connector, &config).await
    }

    async fn connect_over(connector: Connector, config: &MySqlConfig) -> Result<Self> {
        let keeper_runtime = KeeperRuntime::at(config.keeper)?;
        let (client, version) = Client::connect(connector, config, &keeper_runtime).await?;
        let mut capabilities = capabilities(config.hold);
        capabilities.slots &= client.names.has_latest_columns();
        capabilities.log_connected(&client.server, Some(&version));
        let client = Arc::new(client);
        let keeper = Keeper::new(capabilities, Arc::<Client>::clone(&client), keeper_runtime);
        Ok(Self {
            client,
            keeper,
            queue: LocalQueue::new(),
        })
    }
}

const ROW_IS_FREED: &str = "with hold = \"row\" the server frees a row as soon as its holder's connection dies: use hold = \"lease\"";

fn capabilities(hold: MySqlHold) -> Capabilities {
    let capabilities = Capabilities::new(BACKEND)
        .with_shared()
        .with_tokens(TokenOrder::ServerClock);
    match hold {
        MySqlHold::Lease => capabilities
            .with_permits()
            .with_slots()
            .with_upgrades()
            .with_inspect()
            .with_lock_delay(*TTL_RANGE.end())
            .with_min_hold(*TTL_RANGE.end()),
        // `wait_timeout`, which ends the session of a silent holder, is a whole number of seconds.
        MySqlHold::Row => capabilities
            .with_ttl(Duration::from_secs(1)..=*TTL_RANGE.end())
            .without_lock_delay(ROW_IS_FREED)
            .without_min_hold(ROW_IS_FREED),
    }
}

#[async_trait]
impl DistributedLock for MySqlLock {
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
                let attempt = MySqlAttempt::new(&lock.client, &request);
                let acquired = acquire(
                    &lock.keeper,
                    &request,
                    Some(&lock.queue),
                    REPLY_LIMIT,
                    attempt,
                )
                .await;
                acquired.map_err(|error| lock.client.at_server(error))
            }
        };
        self.keeper.acquire(request, take).await
    }

    async fn shutdown(&self, within: Duration) -> Result<()> {
        self.keeper.shutdown(within).await
    }
}
