//! The lock service on one cluster.

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use lock_core::backend::{Keeper, KeeperRuntime, LocalQueue, acquire};
use lock_core::{
    Capabilities, DistributedLock, LockGuard, LockRequest, Result, TTL_RANGE, TokenOrder,
};

use crate::EtcdConfig;
use crate::acquire::EtcdAttempt;
use crate::client::Client;
use crate::connection::connect::Connector;
use crate::connection::shared_connection::REPLY_LIMIT;
use crate::error::BACKEND;
use crate::keys::Keys;

/// The shortest ttl that any server grants, a lease's unit.
const TTL_MIN: Duration = Duration::from_secs(1);

/// Locks on one etcd cluster, version 3.4 or later.
///
/// Grants all three modes in the order of arrival among all processes. A take of a free lock is one
/// round trip. Waiters queue on the servers, and each waits for the claim before it, so a release
/// wakes no waiter in vain.
///
/// The ttl is rounded down to whole seconds, and is at least one and a half election timeouts of
/// the servers. A lock delay is rounded up. A crashed holder blocks waiters for at most its ttl and
/// a second, or for twice its ttl after a change of leader. Holds survive a change of leader. Holds
/// are lost, in time, if the cluster has no leader for long, or if the leader changes while the
/// members have reached their quota. The claim of a waiter that crashes also stays for the ttl and
/// the lock delay.
///
/// A request without a wait fails if no server answers within two seconds (a third of the ttl, if
/// that is less). While no server can be reached, a wait continues until its end, or for 30 seconds
/// if it has no end.
///
/// ```no_run
/// use lock_core::DistributedLockExt;
/// use lock_etcd::{EtcdConfig, EtcdLock};
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> lock_core::Result<()> {
/// let locks = EtcdLock::connect(EtcdConfig::new("etcd://etcd1,etcd2,etcd3")).await?;
/// let guard = locks.lock("nightly-report").await?;
/// guard.release().await?;
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Debug)]
pub struct EtcdLock {
    client: Arc<Client>,
    keeper: Keeper,
    /// The tasks of this process that are about to enter a queue.
    queue: LocalQueue,
}

impl EtcdLock {
    /// Checks the configuration without connecting, and returns what is known of the capabilities.
    ///
    /// Certificate files are not read. The shortest ttl depends on the servers, and is a second.
    ///
    /// # Errors
    ///
    /// [`Config`](lock_core::ErrorKind::Config) for a malformed URL, or settings that contradict it.
    pub fn check(config: &EtcdConfig) -> Result<Capabilities> {
        Connector::new(config, &Keys::new(&config.namespace))?;
        Ok(capabilities(TTL_MIN))
    }

    /// Connects to the cluster of `config`.
    ///
    /// # Errors
    ///
    /// - [`Config`](lock_core::ErrorKind::Config) for a malformed URL or certificate file, or a
    ///   user on servers without users.
    /// - [`Unavailable`](lock_core::ErrorKind::Unavailable) if no server answers in time, or no
    ///   server has a leader.
    /// - [`Denied`](lock_core::ErrorKind::Denied) if the servers refuse user, password or client
    ///   certificate, or if their own certificate is not trusted.
    ///
    /// # Cancel safety
    ///
    /// Cancel safe: dropping the future closes the connections.
    ///
    /// # Examples
    ///
    /// ```no_run
    /// use lock_etcd::{EtcdConfig, EtcdLock};
    ///
    /// # async fn example() -> lock_core::Result<()> {
    /// let config = EtcdConfig::new("etcd://app:secret@etcd1:2379,etcd2:2379");
    /// let locks = EtcdLock::connect(config).await?;
    /// # Ok(())
    /// # }
    /// ```
    pub async fn connect(config: EtcdConfig) -> Result<Self> {
        let keeper_runtime = KeeperRuntime::at(config.keeper)?;
        let client = Client::connect(&config, &keeper_runtime)
            .await
            .map_err(|error| error.with_operation("connect"))?;
        let client = Arc::new(client);
        let capabilities = capabilities(client.shortest);
        let (server, version) = client.server().await?;
        capabilities.log_connected(&server, version.as_deref());
        let keeper = Keeper::new(capabilities, Arc::<Client>::clone(&client), keeper_runtime);
        Ok(Self {
            client,
            keeper,
            queue: LocalQueue::new(),
        })
    }
}

/// Returns the capabilities on servers with `shortest` as the shortest ttl.
fn capabilities(shortest: Duration) -> Capabilities {
    Capabilities::new(BACKEND)
        .with_shared()
        .with_permits()
        .with_slots()
        .with_upgrades()
        .with_fairness()
        .with_push()
        .with_inspect()
        .with_tokens(TokenOrder::Always)
        .with_ttl(shortest..=*TTL_RANGE.end())
        .with_lock_delay(*TTL_RANGE.end())
        .with_min_hold(*TTL_RANGE.end())
}

#[async_trait]
impl DistributedLock for EtcdLock {
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
                let attempt = EtcdAttempt::new(&lock.client, &request)?;
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
        let outcome = self.keeper.shutdown(within).await;
        self.client.background()?.leases.retire();
        outcome
    }
}
