//! The backend of the simulated world, written like a backend for a real store.

use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use lock_core::backend::{
    Answer as TakeAnswer, Ask, Attempt, Backoff, Clock, HoldId, Keeper, LastReply, LeaseStore,
    LocalQueue, RecheckHandle, Released, Renewal, ReplyStats, acquire, async_trait,
};
use lock_core::{
    Capabilities, DistributedLock, Error, ErrorKind, LockGuard, LockRequest, LossReason, Result,
    TTL_RANGE, TokenOrder,
};
use tokio::sync::Notify;
use tokio::sync::futures::Notified;
use tokio::time::timeout;

use crate::network::{Answer, Network, Request};

/// Time limit for an answer.
const REPLY_LIMIT: Duration = Duration::from_millis(60);

/// A client of the simulated server.
#[derive(Clone, Debug)]
pub(crate) struct Client {
    connection: Arc<Connection>,
    keeper: Keeper,
    queue: LocalQueue,
    /// Notified when a key was released.
    changed: Arc<Notify>,
}

/// The part that renews and releases holds.
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
            .with_min_hold(*TTL_RANGE.end())
            .with_tokens(TokenOrder::Always);
        Self {
            keeper: Keeper::in_process(capabilities, Arc::<Connection>::clone(&connection)),
            connection,
            queue: LocalQueue::new(),
            changed: Arc::default(),
        }
    }

    /// Processes the keys that the server has reported.
    pub(crate) fn listen(&self) {
        let recheck: RecheckHandle = self.keeper.recheck_handle();
        for key in self.connection.network.inbox(self.connection.process) {
            recheck.changed(&key);
            self.changed.notify_waiters();
        }
    }

    /// Returns a part that lives as long as any hold or release of this client.
    pub(crate) fn connection(&self) -> Arc<Connection> {
        Arc::clone(&self.connection)
    }
}

/// The attempts of one acquisition.
struct SimulatedAttempt<'a> {
    client: &'a Client,
    /// Listens since before the last attempt.
    changed: Pin<Box<Notified<'a>>>,
    looks: Backoff,
    replies: ReplyStats,
}

impl<'a> SimulatedAttempt<'a> {
    fn new(client: &'a Client) -> Self {
        Self {
            client,
            changed: Box::pin(client.changed.notified()),
            looks: Backoff::new(Duration::from_millis(1), Duration::from_millis(20)),
            replies: ReplyStats::new(),
        }
    }
}

impl Attempt for SimulatedAttempt<'_> {
    const LINES_UP_FIRST: bool = true;

    async fn ask(&mut self, ask: Ask<'_>) -> Result<TakeAnswer> {
        self.changed = Box::pin(self.client.changed.notified());
        let sent = ask.claim.sending();
        let take = Request::Take(ask.claim.id().clone());
        Ok(match self.client.connection.ask(take).await? {
            Answer::Taken(Some(grant)) => TakeAnswer::Granted {
                grant,
                sent,
                ttl: ask.claim.id().store_ttl(),
            },
            _ => TakeAnswer::Refused {
                sent,
                may_arrive: false,
                next_ask: self.looks.next_pause(),
            },
        })
    }

    fn last_reply(&self) -> LastReply {
        self.replies.last()
    }

    async fn changed(&mut self) -> Result<()> {
        self.changed.as_mut().await;
        Ok(())
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
            async move {
                let attempt = SimulatedAttempt::new(&client);
                let (keeper, queue) = (&client.keeper, &client.queue);
                acquire(
                    keeper,
                    &request,
                    Some(queue),
                    Duration::from_secs(1),
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

    async fn shorten(&self, hold: &HoldId, left: Duration) -> Result<Released> {
        match self.ask(Request::Shorten(hold.clone(), left)).await? {
            Answer::Released(true) => Ok(Released::Released),
            _ => Ok(Released::AlreadyLost),
        }
    }
}
