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
use crate::connection::shared::REPLY_LIMIT;
use crate::error::BACKEND;

/// Locks on one etcd cluster, version 3.4 or later.
///
/// Grants all three modes in the order of arrival among all processes. A free lock takes one round
/// trip. Waiters queue on the servers, and each is woken by the claim before it, so a release wakes
/// no waiter in vain.
///
/// The ttl is a whole number of seconds, rounded down, and at least one and a half election
/// timeouts of the servers; a lock delay is rounded up. A crashed holder blocks others for at most
/// its ttl and a second; after a change of leader, for twice its ttl. Holds survive a change of
/// leader. They are lost, in time, if the cluster has no leader for long, or if the members have
/// reached their quota. A lock delay comes on top of the ttl, also for a waiter that crashes.
///
/// A request without a wait fails if no server answers within two seconds (a third of the ttl, if
/// that is less). A wait continues while no server can be reached, until its end; a wait without an
/// end, for 30 seconds.
#[derive(Clone, Debug)]
pub struct EtcdLock {
    client: Arc<Client>,
    keeper: Keeper,
    /// The tasks of this process that are about to enter a queue.
    queue: LocalQueue,
}

impl EtcdLock {
    /// Connects to the cluster of `config`.
    ///
    /// # Errors
    ///
    /// - [`Config`](lock_core::ErrorKind::Config) for a malformed URL or certificate file, or a user
    ///   where the servers know none.
    /// - [`Unavailable`](lock_core::ErrorKind::Unavailable) when no server answers in time, or none
    ///   has a leader.
    /// - [`Denied`](lock_core::ErrorKind::Denied) when the servers refuse user, password or client
    ///   certificate, or their own certificate is not to be trusted.
    ///
    /// # Cancel safety
    ///
    /// Cancel safe: dropping the future closes the connections.
    pub async fn connect(config: EtcdConfig) -> Result<Self> {
        let keeper_runtime = KeeperRuntime::at(config.keeper)?;
        let (client, shortest) = Client::connect(&config, &keeper_runtime)
            .await
            .map_err(|error| error.with_operation("connect"))?;
        let client = Arc::new(client);
        let capabilities = Capabilities::new(BACKEND)
            .with_shared()
            .with_permits()
            .with_fairness()
            .with_push()
            .with_tokens(TokenOrder::Always)
            .with_ttl(shortest..=*TTL_RANGE.end())
            .with_lock_delay(*TTL_RANGE.end());
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
