//! The backend of the simulated world, written as a backend for a real store would be.

use std::sync::Arc;
use std::time::Duration;

use lock_core::{
    Backoff, Capabilities, Clock, DistributedLock, Error, ErrorKind, FencingToken, HoldId, Keeper,
    LeaseStore, LocalQueue, LockGuard, LockRequest, LossReason, RecheckHandle, Released, Renewal,
    Result, Retry, TokenOrder, Wait, async_trait,
};
use tokio::sync::Notify;
use tokio::time::{Instant, timeout};

use crate::network::{Answer, Network, Request};

/// For how long an answer is waited for.
const REPLY_LIMIT: Duration = Duration::from_millis(60);

/// A client of the simulated server.
#[derive(Clone, Debug)]
pub(crate) struct Client {
    connection: Arc<Connection>,
    keeper: Keeper,
    line: LocalQueue,
    /// Told when a key was given back.
    changed: Arc<Notify>,
}

/// The half that keeps holds and gives them back.
#[derive(Debug)]
pub(crate) struct Connection {
    network: Arc<Network>,
    process: usize,
}

impl Client {
    pub(crate) fn new(network: Arc<Network>, process: usize) -> Self {
        let connection = Arc::new(Connection { network, process });
        let capabilities = Capabilities::new("simulated")
            .with_push()
            .with_tokens(TokenOrder::Always);
        Self {
            keeper: Keeper::in_process(capabilities, Arc::<Connection>::clone(&connection)),
            connection,
            line: LocalQueue::new(),
            changed: Arc::default(),
        }
    }

    /// Listens to what the server tells.
    pub(crate) fn listen(&self) {
        let recheck: RecheckHandle = self.keeper.recheck_handle();
        for key in self.connection.network.inbox(self.connection.process) {
            recheck.changed(&key);
            self.changed.notify_waiters();
        }
    }

    /// Something that lives as long as anything of this client does, a hold or a release under way.
    pub(crate) fn connection(&self) -> Arc<Connection> {
        Arc::clone(&self.connection)
    }

    async fn take(&self, request: &LockRequest) -> Result<Option<LockGuard>> {
        let ends = request.wait().deadline();
        let mut attempts = Retry::new(request, Duration::from_secs(1));
        let Some(_turn) = self.line.enter(&request.key, &mut attempts).await? else {
            return Ok(None);
        };
        let mut backoff = Backoff::new(Duration::from_millis(1), Duration::from_millis(20));
        let mut claim = self.keeper.claim(request)?;
        loop {
            let changed = self.changed.notified();
            let sent = claim.sending();
            let answer = self.connection.ask(Request::Take(claim.id().clone())).await;
            let over =
                request.wait() == Wait::No || ends.is_some_and(|ends| ends <= Instant::now());
            match answer {
                Ok(Answer::Taken(Some(grant))) => {
                    let ttl = claim.id().ttl();
                    let guard = claim.granted(FencingToken::from_grant(grant)?, sent, ttl);
                    if guard.is_some() || over {
                        return Ok(guard);
                    }
                    claim = self.keeper.claim(request)?;
                    continue;
                }
                Ok(_) => claim.refused(),
                // Asked again with the same owner, who may have won it.
                Err(error) if over => return Err(error),
                Err(_) => {}
            }
            if over {
                return Ok(None);
            }
            // At the end of the wait it asks once more.
            let pause = ends.map(|ends| ends.saturating_duration_since(Instant::now()));
            let pause = backoff.next_pause().min(pause.unwrap_or(Duration::MAX));
            let _woken = timeout(pause, changed).await;
        }
    }
}

#[async_trait]
impl DistributedLock for Client {
    fn capabilities(&self) -> Capabilities {
        self.keeper.capabilities()
    }

    fn keeper(&self) -> Option<&Keeper> {
        Some(&self.keeper)
    }

    async fn acquire(&self, request: LockRequest) -> Result<Option<LockGuard>> {
        let take = |request| {
            let client = self.clone();
            async move { client.take(&request).await }
        };
        self.keeper.acquire(request, take).await
    }

    async fn shutdown(&self, within: Duration) -> Result<()> {
        self.keeper.shutdown(within).await
    }
}

impl Connection {
    async fn ask(&self, request: Request) -> Result<Answer> {
        let answer = self.network.send(self.process, request);
        let lost = || Error::new(ErrorKind::Unavailable, "no answer of the simulated server");
        timeout(REPLY_LIMIT, answer)
            .await
            .map_err(|_| lost())?
            .map_err(|_| lost())
    }
}

#[async_trait]
impl LeaseStore for Connection {
    async fn renew(&self, holds: &[HoldId]) -> Result<Vec<Renewal>> {
        let sent = Clock::Runtime.now();
        let Answer::Renewed(held) = self.ask(Request::Renew(holds.to_vec())).await? else {
            unreachable!("it answers what it was asked")
        };
        let renewal = |held: Option<Duration>| match held {
            Some(ttl) => Renewal::Held { sent, ttl },
            None => Renewal::Lost(LossReason::Removed),
        };
        Ok(held.into_iter().map(renewal).collect())
    }

    async fn release(&self, hold: &HoldId) -> Result<Released> {
        match self.ask(Request::Release(hold.clone())).await? {
            Answer::Released(true) => Ok(Released::Released),
            _ => Ok(Released::AlreadyLost),
        }
    }
}
