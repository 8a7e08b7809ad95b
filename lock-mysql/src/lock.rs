//! Taking and waiting.

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use lock_core::{
    Backoff, Capabilities, Claim, DistributedLock, Error, ErrorKind, FencingToken, HumanDuration,
    Keeper, KeeperRuntime, LocalQueue, LocalTurn, LockGuard, LockRequest, Moment, Result, Retry,
    TTL_RANGE, TokenOrder,
};

use crate::client::Client;
use crate::error::{BACKEND, Failure};
use crate::row_takes::RowWait;
use crate::{MySqlConfig, MySqlHold};

/// How long an answer may take, if nothing shorter applies: longer than InnoDB waits for a row.
const REPLY_LIMIT: Duration = Duration::from_secs(2);

/// How long a waiter pauses at most between attempts that have no answer.
const LONGEST_PAUSE: Duration = Duration::from_secs(1);

/// How long it relies on the poller, which wakes it also when it cannot look any more.
const ASK_AGAIN: Duration = Duration::from_secs(60 * 60);

/// How soon it asks again at the earliest.
const SHORTEST_PAUSE: Duration = Duration::from_millis(5);

/// Locks on one MySQL (8.0 or later) or MariaDB (10.6 or later) server.
///
/// Waiters of one process are served in order. Processes take turns: with leases a waiter that others pass by
/// has the key kept for it, and row locks have the server's own queue.
///
/// A request without a wait fails when the server has not answered within two seconds (a third of the
/// ttl, if that is less). A wait rides out a server that cannot be reached until the wait ends; one
/// that has no end of its own, for 30 seconds.
#[derive(Clone, Debug)]
pub struct MySqlLock {
    client: Arc<Client>,
    keeper: Keeper,
    line: LocalQueue,
}

impl MySqlLock {
    /// Connects to the server of `config`, and creates the tables if they are missing.
    ///
    /// # Errors
    ///
    /// [`Config`](ErrorKind::Config) for a malformed URL or table name, and for a table or server that
    /// cannot hold locks safely, [`Unavailable`](ErrorKind::Unavailable) when the server does not
    /// let us in within 2 s or does not answer within 5 s, takes no writes, or does not speak TLS where that is asked for,
    /// [`Denied`](ErrorKind::Denied) when it refuses user or password, or its certificate is not to be
    /// trusted, [`Unsupported`](ErrorKind::Unsupported) for a server that is too old.
    ///
    /// # Cancel safety
    ///
    /// Dropping the future closes the connections.
    pub async fn connect(config: MySqlConfig) -> Result<Self> {
        let keeper_runtime = KeeperRuntime::at(config.keeper)?;
        let capabilities = capabilities(config.hold);
        let client = Arc::new(Client::connect(&config, &keeper_runtime, &capabilities).await?);
        let keeper = Keeper::new(capabilities, Arc::<Client>::clone(&client), keeper_runtime);
        Ok(Self {
            client,
            keeper,
            line: LocalQueue::new(),
        })
    }
}

fn capabilities(hold: MySqlHold) -> Capabilities {
    let capabilities = Capabilities::new(BACKEND)
        .with_shared()
        .with_tokens(TokenOrder::ServerClock);
    match hold {
        MySqlHold::Lease => capabilities
            .with_permits()
            .with_lock_delay(*TTL_RANGE.end()),
        // The server counts the idle time of connections in seconds.
        MySqlHold::Row => capabilities
            .with_ttl(Duration::from_secs(1)..=*TTL_RANGE.end())
            .without_lock_delay(
                "with hold = \"row\" the server frees a row as soon as its holder's connection dies: use hold = \"lease\"",
            ),
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
                let acquired = Acquisition::new(&lock, &request)?.run().await;
                acquired.map_err(|error| lock.client.at_server(error))
            }
        };
        self.keeper.acquire(request, take).await
    }

    async fn shutdown(&self, within: Duration) -> Result<()> {
        self.keeper.shutdown(within).await
    }
}

/// One acquisition: its claim, and what came of its attempts.
struct Acquisition<'a> {
    lock: &'a MySqlLock,
    request: &'a LockRequest,
    attempts: Retry,
    /// Kept over attempts without a definite answer, so that a resend is known as one.
    claim: Option<Claim>,
    /// Whether the row was still locked when the wait was over.
    outlocked: bool,
    /// What the server has said last of why it grants nothing.
    told: Option<Error>,
    /// How a row is waited for next.
    row_wait: RowWait,
}

impl<'a> Acquisition<'a> {
    fn new(lock: &'a MySqlLock, request: &'a LockRequest) -> Result<Self> {
        Ok(Self {
            lock,
            request,
            attempts: Retry::new(request, REPLY_LIMIT),
            claim: Some(lock.keeper.claim(request)?),
            outlocked: false,
            told: None,
            row_wait: RowWait::begin(),
        })
    }

    async fn run(&mut self) -> Result<Option<LockGuard>> {
        if !self.attempts.waits() {
            return Box::pin(self.attempt(false)).await;
        }
        let line = &self.lock.line;
        let others_wait = line.is_waited_for(&self.request.key);
        match line.enter(&self.request.key, &mut self.attempts).await? {
            Some(turn) => self.wait(turn, others_wait).await,
            None => self.last_word().await,
        }
    }

    /// Asks, and waits for the key to become free, until granted or the wait is over.
    async fn wait(&mut self, _turn: LocalTurn, stood_in_line: bool) -> Result<Option<LockGuard>> {
        // Behind others the row is locked in all likelihood: we had better be in the server's queue when it is free.
        if !(stood_in_line && self.lock.client.hold == MySqlHold::Row)
            && let Some(guard) = self.attempt_and_note(false).await?
        {
            return Ok(Some(guard));
        }
        let watcher = match self.lock.client.hold {
            MySqlHold::Lease => {
                let LockRequest { key, mode, .. } = self.request;
                Some(self.lock.client.watch(key, *mode)?)
            }
            MySqlHold::Row => None,
        };
        let mut backoff = Backoff::new(SHORTEST_PAUSE, LONGEST_PAUSE);
        while !self.outlocked {
            if let Some(guard) = self.attempt_and_note(true).await? {
                return Ok(Some(guard));
            }
            let pause = match (&watcher, self.attempts.is_troubled()) {
                (_, true) => backoff.next_pause(),
                (Some(_), false) => ASK_AGAIN,
                // The server has waited for us, unless it is a lease that is in the way.
                (None, false) => SHORTEST_PAUSE,
            };
            let woken = async {
                match &watcher {
                    Some(watcher) => watcher.changed().await,
                    None => std::future::pending().await,
                }
            };
            if !self.attempts.pause(pause, woken).await {
                return self.last_word().await;
            }
        }
        Ok(None)
    }

    /// Asks once more at the end of a wait: what was held when we last heard of it may be free by
    /// now, or the server may be gone, which is not the same.
    async fn last_word(&mut self) -> Result<Option<LockGuard>> {
        if self.outlocked {
            return Ok(None);
        }
        let attempt = Box::pin(self.attempt(false)).await;
        self.attempts.last_word(attempt)
    }

    async fn attempt_and_note(&mut self, wait: bool) -> Result<Option<LockGuard>> {
        let attempt = Box::pin(self.attempt(wait)).await;
        self.attempts.note(attempt, self.lock.client.heard.last())
    }

    /// One request for the key. Dropping it here, at any point, drops the armed claim.
    ///
    /// Box it: a waiter would have room for it all the time.
    async fn attempt(&mut self, wait: bool) -> Result<Option<LockGuard>> {
        let client = &self.lock.client;
        let patience = self.attempts.patience(client.heard.last());
        let left = self.attempts.left();
        let mut claim = match self.claim.take() {
            Some(claim) => claim,
            None => self.lock.keeper.claim(self.request)?,
        };
        let begun = claim.sending();
        let answer = match client.hold {
            MySqlHold::Lease => Box::pin(client.take_lease(claim.id(), left, patience)).await,
            MySqlHold::Row => {
                self.row_wait.left = left;
                let wait = wait.then_some(self.row_wait);
                let taking = Box::pin(client.take_row(&claim, wait, patience));
                self.row_wait = wait.map_or(self.row_wait, |wait| wait.next(claim.id().ttl()));
                taking.await
            }
        };
        match answer {
            Ok(Some(won)) => {
                client.heard.note(won.sent);
                let token = FencingToken::from_grant(won.grant)?;
                let (ttl, store_ttl) = (claim.id().ttl(), claim.id().store_ttl());
                let guard = claim.granted(token, won.sent, store_ttl);
                guard.map(Some).ok_or_else(|| came_too_late(ttl))
            }
            Ok(None) => {
                client.heard.note(begun);
                claim.refused();
                self.told = None;
                self.attempts.refused(begun);
                self.claim = Some(claim);
                Ok(None)
            }
            Err(failure) => {
                if matches!(failure, Failure::Denied(_)) {
                    // Nothing is to be cleaned up. After any other failure what was sent may have been granted.
                    claim.refused();
                }
                self.claim = Some(claim);
                self.doubt(begun, failure).await
            }
        }
    }

    /// A row that somebody else keeps locked looks from here like a server that does not answer; a row lock may
    /// be our own, whose answer was lost. The claim stays armed unless the server has denied it: what was sent may
    /// still be granted.
    async fn doubt(&mut self, begun: Moment, failure: Failure) -> Result<Option<LockGuard>> {
        let client = &self.lock.client;
        let is_told = matches!(failure, Failure::Blocked(_) | Failure::ReadOnly(_));
        let is_silence = matches!(failure, Failure::NoAnswer(_) | Failure::Working(_));
        let error = failure.into_error();
        let grace = self.attempts.grace(client.heard.last());
        let is_locked = Box::pin(client.is_locked(&self.request.key, grace));
        if client.hold == MySqlHold::Lease && error.is_retryable() && !is_told && is_locked.await {
            self.attempts.refused(begun);
            self.outlocked = self.attempts.is_over();
            return Ok(None);
        }
        if is_told || (!is_silence && self.told.is_none()) {
            self.told = Some(error.clone());
        }
        // The last attempt of a wait has little time, and what the server has said is worth more than its silence.
        match self.told.clone().filter(|_| error.is_retryable()) {
            Some(told) => Err(told),
            None => Err(error),
        }
    }
}

fn came_too_late(ttl: Duration) -> Error {
    Error::new(
        ErrorKind::Unavailable,
        format!(
            "the grant came too late for a ttl of {}: use a longer ttl, or look at what slows the server",
            HumanDuration(ttl)
        ),
    )
    .with_backend(BACKEND)
}
