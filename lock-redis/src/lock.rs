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
use crate::error::BACKEND;

/// When a hold is renewed first, since from then on the server tells of its removal. The take
/// itself does not listen, which would cost every lock something.
const FIRST_RENEWAL: Duration = Duration::from_millis(250);

/// Locks on one Redis (or Valkey) server, version 6 or later.
///
/// All three modes, taken in one round trip each. Waiters of one process are served in order; among
/// processes the waiter that asks first after a release gets the lock, but who has waited longest,
/// of another process or mode, has its turn after 5 ms of that: the key is then kept for it for up
/// to 10 ms when it becomes free, and no reader or permit joins those that hold it. Tries and other
/// processes find the key held meanwhile. Programs of other kinds, and versions before, take it
/// whenever it is free.
///
/// On a server that has no `CLIENT TRACKING`, or does not let us use it, waiters look every 100 ms
/// or more often, and a hold that was removed is noticed by its next renewal; `capabilities().push`
/// says so.
///
/// A request without a wait fails when the server has not answered within a second (a third of the
/// ttl, if that is less). A wait outlasts a server that cannot be reached until the wait ends; one
/// that has no end of its own, for 30 seconds.
#[derive(Clone, Debug)]
pub struct RedisLock {
    client: Arc<Client>,
    keeper: Keeper,
    queue: LocalQueue,
}

impl RedisLock {
    /// Connects to the server of `config`.
    ///
    /// # Errors
    ///
    /// [`Config`](lock_core::ErrorKind::Config) for a malformed URL or certificate file,
    /// [`Unavailable`](lock_core::ErrorKind::Unavailable) when the server does not answer within 2
    /// s, or not over TLS where that is asked for, [`Denied`](lock_core::ErrorKind::Denied) when it
    /// refuses user, password or client certificate, or its own certificate is not to be trusted,
    /// [`Unsupported`](lock_core::ErrorKind::Unsupported) for a version before 6, a Redis Cluster,
    /// a Sentinel, and a server without `EVAL` and `EVALSHA`.
    ///
    /// # Cancel safety
    ///
    /// Dropping the future closes the connections.
    pub async fn connect(config: RedisConfig) -> Result<Self> {
        let keeper_runtime = KeeperRuntime::at(config.keeper)?;
        let (client, found) = Client::connect(&config, &keeper_runtime).await?;
        let client = Arc::new(client);
        let mut capabilities = Capabilities::new(BACKEND)
            .with_shared()
            .with_permits()
            .with_lock_delay(*TTL_RANGE.end())
            .with_tokens(TokenOrder::ServerClock);
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
                let attempt = RedisAttempt::new(&lock.client, &request)?;
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
