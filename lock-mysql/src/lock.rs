//! Taking and waiting.

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use lock_core::{
    Backoff, Capabilities, Claim, Clock, DistributedLock, Error, ErrorKind, FencingToken, Keeper,
    KeeperHome, Line, LockGuard, LockRequest, Moment, Result, TTL_RANGE, TokenOrder, Turn,
};
use tokio::time::Instant;

use crate::client::Client;
use crate::error::BACKEND;
use crate::poller::Watcher;
use crate::{MySqlConfig, MySqlHold};

/// How long an answer may take, if nothing shorter applies: longer than InnoDB waits for a row.
const REPLY_LIMIT: Duration = Duration::from_secs(2);

/// How long a waiter trusts the poller before it asks by itself.
const ASK_AGAIN: Duration = Duration::from_secs(1);

/// How far an answer may come after the end of a wait, at least: a request that was sent in time is
/// better waited for than misread.
const GRACE: Duration = Duration::from_millis(40);

/// ... and at most: a wait that is a little late is better than one that is much longer than asked.
const GRACE_MAX: Duration = Duration::from_millis(250);

/// How long an answer that the key is held stands for a wait that ends meanwhile.
const RECENT: Duration = Duration::from_millis(500);

/// How long a wait that has no end of its own rides out a server that cannot be reached.
const OUTAGE_LIMIT: Duration = Duration::from_secs(30);

/// Locks on one MySQL (8.0 or later) or MariaDB (10.6 or later) server.
///
/// Waiters of one process are served in order; among processes whoever asks first after a release gets
/// the lock.
///
/// A request without a wait fails when the server has not answered within two seconds (a third of the
/// ttl, if that is less). A wait rides out a server that cannot be reached until the wait ends; one
/// that has no end of its own, for 30 seconds.
#[derive(Clone, Debug)]
pub struct MySqlLock {
    client: Arc<Client>,
    keeper: Keeper,
    line: Line,
}

impl MySqlLock {
    /// Connects to the server of `config`, and creates the tables if they are missing.
    ///
    /// # Errors
    ///
    /// [`Config`](ErrorKind::Config) for a malformed URL or table name, and for a table or server that
    /// cannot hold locks safely, [`Unavailable`](ErrorKind::Unavailable) when the server does not
    /// answer within 2 s, takes no writes, or does not speak TLS where that is asked for,
    /// [`Denied`](ErrorKind::Denied) when it refuses user or password, or its certificate is not to be
    /// trusted, [`Unsupported`](ErrorKind::Unsupported) for a server that is too old.
    ///
    /// # Cancel safety
    ///
    /// Dropping the future closes the connections.
    pub async fn connect(config: MySqlConfig) -> Result<Self> {
        let home = KeeperHome::at(config.keeper)?;
        let client = Arc::new(Client::connect(&config, &home).await?);
        let keeper = Keeper::new(
            capabilities(config.hold),
            Arc::<Client>::clone(&client),
            home,
        );
        Ok(Self {
            client,
            keeper,
            line: Line::new(),
        })
    }
}

fn capabilities(hold: MySqlHold) -> Capabilities {
    let capabilities = Capabilities::new(BACKEND)
        .with_shared()
        .with_tokens(TokenOrder::ServerClock);
    match hold {
        MySqlHold::Lease => capabilities.with_permits(),
        // The server counts the idle time of connections in seconds.
        MySqlHold::Row => capabilities.with_ttl(Duration::from_secs(1)..=*TTL_RANGE.end()),
    }
}

#[async_trait]
impl DistributedLock for MySqlLock {
    fn capabilities(&self) -> Capabilities {
        self.keeper.capabilities()
    }

    async fn acquire(&self, request: LockRequest) -> Result<Option<LockGuard>> {
        let acquiring = async { Acquisition::new(self, &request)?.run().await };
        self.keeper.acquiring(&request, acquiring).await
    }

    async fn shutdown(&self, within: Duration) -> Result<()> {
        self.keeper.shutdown(within).await
    }
}

/// One acquisition: its claim, and when its wait ends.
struct Acquisition<'a> {
    lock: &'a MySqlLock,
    request: &'a LockRequest,
    /// Kept over attempts without a definite answer, so that a resend is known as one.
    claim: Option<Claim>,
    waits: bool,
    /// When the wait ends, if it ends by itself.
    ends: Option<Instant>,
    begun: Moment,
    /// Whether the last attempt had no definite answer.
    troubled: bool,
    /// When the last request was sent to which the answer was that the key is held.
    refused: Option<Moment>,
    /// Whether the row was still locked when the wait was over.
    outlocked: bool,
}

impl<'a> Acquisition<'a> {
    fn new(lock: &'a MySqlLock, request: &'a LockRequest) -> Result<Self> {
        let deadline = request.wait().deadline();
        // A wait that is over when it begins is none.
        let waits = deadline.is_none_or(|ends| Instant::now() < ends);
        Ok(Self {
            lock,
            request,
            claim: Some(lock.keeper.claim(request)?),
            waits,
            ends: deadline.filter(|_| waits),
            begun: Clock::Boot.now(),
            troubled: false,
            refused: None,
            outlocked: false,
        })
    }

    async fn run(&mut self) -> Result<Option<LockGuard>> {
        if !self.waits {
            return self.attempt(false).await;
        }
        let Some(turn) = self.lock.line.enter(&self.request.key, self.ends).await else {
            return self.last_word().await;
        };
        self.wait(turn).await
    }

    /// Asks, and waits for the key to become free, until granted or the wait is over.
    async fn wait(&mut self, _turn: Turn) -> Result<Option<LockGuard>> {
        let attempt = self.attempt(false).await;
        if let Some(guard) = self.note(attempt)? {
            return Ok(Some(guard));
        }
        let watcher = match self.lock.client.hold {
            MySqlHold::Lease => {
                let LockRequest { key, mode, .. } = self.request;
                Some(self.lock.client.watch(key, *mode)?)
            }
            MySqlHold::Row => None,
        };
        let mut backoff = Backoff::new(Duration::from_millis(5), ASK_AGAIN);
        while !self.outlocked {
            let attempt = self.attempt(true).await;
            if let Some(guard) = self.note(attempt)? {
                return Ok(Some(guard));
            }
            let pause = match (&watcher, self.troubled) {
                (_, true) => backoff.next_pause(),
                (Some(_), false) => ASK_AGAIN,
                // The server has waited for us, unless it is a lease that is in the way.
                (None, false) => Duration::from_millis(5),
            };
            if !self.pause(pause, watcher.as_ref()).await {
                return self.last_word().await;
            }
        }
        Ok(None)
    }

    /// Asks once more at the end of a wait: what was busy when we last heard of it may be free by
    /// now, or the server may be gone, which is not the same as busy. A moment's silence is no proof
    /// of that, if it was busy a moment ago.
    async fn last_word(&mut self) -> Result<Option<LockGuard>> {
        if self.outlocked {
            return Ok(None);
        }
        let refused = self.refused;
        match self.attempt(false).await {
            Err(error) if error.is_retryable() && refused.is_some_and(is_recent) => Ok(None),
            outcome => outcome,
        }
    }

    /// One request for the key. Dropping it here, at any point, drops the armed claim.
    async fn attempt(&mut self, wait: bool) -> Result<Option<LockGuard>> {
        let patience = self.patience();
        let wait = wait.then(|| self.left());
        let mut claim = match self.claim.take() {
            Some(claim) => claim,
            None => self.lock.keeper.claim(self.request)?,
        };
        let client = &self.lock.client;
        let begun = claim.sending();
        let answer = match client.hold {
            MySqlHold::Lease => client.take_lease(claim.id(), patience).await,
            MySqlHold::Row => client.take_row(claim.id(), wait, patience).await,
        };
        if answer.is_ok() {
            client.heard.note(begun);
        }
        match answer {
            Ok(Some(won)) => {
                let token = FencingToken::from_grant(won.grant)?;
                let ttl = claim.id().ttl();
                let guard = claim.granted(token, won.sent, ttl);
                guard.map(Some).ok_or_else(|| came_too_late(ttl))
            }
            Ok(None) => {
                claim.refused();
                self.refused = Some(begun);
                self.claim = Some(claim);
                Ok(None)
            }
            Err(error) => {
                self.claim = Some(claim);
                self.doubt(begun, error).await
            }
        }
    }

    /// A row that somebody else keeps locked looks from here like a server that does not answer. The
    /// claim stays armed in any case: what was sent may still be granted.
    async fn doubt(&mut self, begun: Moment, error: Error) -> Result<Option<LockGuard>> {
        let client = &self.lock.client;
        let is_locked = async { client.is_locked(&self.request.key, self.grace()).await };
        if client.hold == MySqlHold::Lease && error.is_retryable() && is_locked.await {
            self.refused = Some(begun);
            self.outlocked = self.ends.is_some_and(|ends| ends <= Instant::now());
            return Ok(None);
        }
        Err(error)
    }

    /// Remembers an attempt without a definite answer, as long as it makes sense to try again.
    fn note(&mut self, attempt: Result<Option<LockGuard>>) -> Result<Option<LockGuard>> {
        let error = match attempt {
            Ok(answer) => {
                self.troubled = false;
                return Ok(answer);
            }
            Err(error) => error,
        };
        // Those who stood in line behind us were cut off for as long as we.
        let heard = self.lock.client.heard.last().at.max(self.begun);
        let outlasted = self.ends.is_none() && Clock::Boot.now().since(heard) > OUTAGE_LIMIT;
        // It was given its time, and a little more; another attempt would only come later.
        let over = self.ends.is_some_and(|ends| ends <= Instant::now())
            && !self.refused.is_some_and(is_recent);
        if !error.is_retryable() || outlasted || over {
            return Err(error);
        }
        tracing::debug!(key = %self.request.key, %error, "trying again");
        self.troubled = true;
        Ok(None)
    }

    /// Sleeps until woken; `false` when the wait is over.
    async fn pause(&self, pause: Duration, watcher: Option<&Watcher>) -> bool {
        let wake = Instant::now() + pause;
        let wake = self.ends.map_or(wake, |ends| ends.min(wake));
        let changed = async {
            match watcher {
                Some(watcher) => watcher.changed().await,
                None => std::future::pending().await,
            }
        };
        // Both arms are cancel safe: a missed notification stays for the next turn.
        tokio::select! {
            () = changed => {}
            () = tokio::time::sleep_until(wake) => {}
        }
        self.ends.is_none_or(|ends| Instant::now() < ends)
    }

    /// How much of the wait is left.
    fn left(&self) -> Duration {
        self.ends.map_or(Duration::MAX, |ends| {
            ends.saturating_duration_since(Instant::now())
        })
    }

    /// How long an answer may take. A grant after a third of the ttl would have to be renewed before
    /// its first use; and at the end of a wait, an answer is no sign of trouble until it takes far
    /// longer than usual.
    fn patience(&self) -> Duration {
        let patience = REPLY_LIMIT.min(self.request.ttl() / 3);
        if self.ends.is_none() {
            return patience;
        }
        patience.min(self.left() + self.grace())
    }

    /// How far an answer may come after the end of a wait.
    fn grace(&self) -> Duration {
        (self.lock.client.heard.last().latency * 4).clamp(GRACE, GRACE_MAX)
    }
}

fn is_recent(moment: Moment) -> bool {
    Clock::Boot.now().since(moment) < RECENT
}

fn came_too_late(ttl: Duration) -> Error {
    Error::new(
        ErrorKind::Unavailable,
        format!("the grant came too late for a ttl of {ttl:?}: use a longer ttl, or look at what slows the server"),
    )
    .with_backend(BACKEND)
}
