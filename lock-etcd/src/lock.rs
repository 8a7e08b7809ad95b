//! Taking and waiting.

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use lock_core::{
    Capabilities, DistributedLock, Keeper, KeeperRuntime, LocalQueue, LockGuard, LockRequest,
    Result, TTL_RANGE, TokenOrder, acquire,
};

use crate::EtcdConfig;
use crate::acquire::EtcdAttempt;
use crate::client::Client;
use crate::connection::shared::REPLY_LIMIT;
use crate::error::BACKEND;

/// Locks on one etcd cluster, version 3.4 or later.
///
/// All three modes, served in the order of arrival among all processes. A free lock is taken in one round
/// trip. Waiters stand in a queue on the servers and are woken by the one before them, so a release wakes
/// nobody in vain.
///
/// A ttl is a whole number of seconds here, rounded down, and no shorter than one and a half election
/// timeouts of the servers; a lock delay is rounded up. A crashed holder blocks others for at most its ttl and a second; after a
/// change of leader, for twice its ttl. Holds survive that, unless nobody leads for long or the members have reached
/// their quota: then they are lost, in time. Where claims have a lock delay, it comes on top of the ttl also for
/// a waiter that crashes.
///
/// A request without a wait fails when no server has answered within two seconds (a third of the ttl, if
/// that is less). A wait rides out servers that cannot be reached until the wait ends; one that has no end
/// of its own, for 30 seconds.
#[derive(Clone, Debug)]
pub struct EtcdLock {
    client: Arc<Client>,
    keeper: Keeper,
    /// The waiters that are about to stand in a queue.
    queue: LocalQueue,
}

impl EtcdLock {
    /// Connects to the cluster of `config`.
    ///
    /// # Errors
    ///
    /// [`Config`](lock_core::ErrorKind::Config) for a malformed URL or certificate file, or a user where the servers
    /// know none, [`Unavailable`](lock_core::ErrorKind::Unavailable) when no server answers in time, or none has a
    /// leader, [`Denied`](lock_core::ErrorKind::Denied) when they refuse user, password or client certificate, or
    /// their own certificate is not to be trusted.
    ///
    /// # Cancel safety
    ///
    /// Dropping the future closes the connections.
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
