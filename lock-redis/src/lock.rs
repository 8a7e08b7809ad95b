//! Taking and waiting.

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use lock_core::{
    Backoff, Capabilities, Claim, DistributedLock, Error, ErrorKind, FencingToken, Keeper,
    KeeperHome, Line, LockGuard, LockRequest, Result, TokenOrder, Turn, Wait,
};
use tokio::time::Instant;

use crate::RedisConfig;
use crate::client::{Client, KeyState, REPLY_LIMIT};
use crate::error::BACKEND;
use crate::wake::Watcher;

/// How long a waiter trusts the server to tell of a change before it looks by itself.
const LOOK_AGAIN: Duration = Duration::from_secs(1);

/// How far an answer may come after the end of a wait, at least: a request that was sent in time is
/// better waited for than misread.
const GRACE: Duration = Duration::from_millis(40);

/// How long a wait that has no end of its own rides out a server that cannot be reached.
const OUTAGE_LIMIT: Duration = Duration::from_secs(30);

/// Locks on one Redis (or Valkey) server, version 6 or later.
///
/// All three modes, taken in one round trip each. Waiters of one process are served in order; among
/// processes whoever asks first after a release gets the lock.
///
/// A request without a wait fails when the server has not answered within a second (a third of the
/// ttl, if that is less). A wait rides out a server that cannot be reached until the wait ends; one
/// that has no end of its own, for 30 seconds.
#[derive(Clone, Debug)]
pub struct RedisLock {
    client: Arc<Client>,
    keeper: Keeper,
    line: Line,
}

impl RedisLock {
    /// Connects to the server of `config`.
    ///
    /// # Errors
    ///
    /// [`Config`](ErrorKind::Config) for a malformed URL, [`Unavailable`](ErrorKind::Unavailable)
    /// when the server does not answer within 2 s, [`Denied`](ErrorKind::Denied) when it refuses
    /// user or password, [`Unsupported`](ErrorKind::Unsupported) for a version before 6.
    ///
    /// # Cancel safety
    ///
    /// Dropping the future closes the connections.
    pub async fn connect(config: RedisConfig) -> Result<Self> {
        let home = KeeperHome::thread()?;
        let client = Arc::new(Client::connect(&config, &home).await?);
        let capabilities = Capabilities::new(BACKEND)
            .with_shared()
            .with_permits()
            .with_push()
            .with_tokens(TokenOrder::ServerClock);
        let keeper = Keeper::new(capabilities, Arc::<Client>::clone(&client), home);
        Ok(Self {
            client,
            keeper,
            line: Line::new(),
        })
    }
}

#[async_trait]
impl DistributedLock for RedisLock {
    fn capabilities(&self) -> Capabilities {
        self.keeper.capabilities()
    }

    async fn acquire(&self, request: LockRequest) -> Result<Option<LockGuard>> {
        let mut acquisition = Acquisition::new(self, &request)?;
        let outcome = acquisition.run(request.wait()).await;
        outcome.map_err(|error| error.with_operation("acquire").with_key(&request.key))
    }
}

/// One acquisition: its claim, and when its wait ends.
struct Acquisition<'a> {
    lock: &'a RedisLock,
    request: &'a LockRequest,
    /// Kept over attempts without a definite answer, so that a resend is known as one.
    claim: Option<Claim>,
    ends: Option<Instant>,
    /// The last attempt's error, if it had no definite answer, and since when it is so.
    trouble: Option<(Error, Instant)>,
}

impl<'a> Acquisition<'a> {
    fn new(lock: &'a RedisLock, request: &'a LockRequest) -> Result<Self> {
        Ok(Self {
            lock,
            request,
            claim: Some(lock.keeper.claim(request)?),
            ends: request.wait().deadline(),
            trouble: None,
        })
    }

    async fn run(&mut self, wait: Wait) -> Result<Option<LockGuard>> {
        if wait == Wait::No {
            return self.attempt(self.patience()).await;
        }
        // Whoever comes while others wait in this process lines up behind them.
        if !self.lock.line.is_waited_for(&self.request.key) {
            let attempt = self.attempt(self.patience_in_wait()).await;
            if let Some(guard) = self.note(attempt)? {
                return Ok(Some(guard));
            }
        }
        let Some(turn) = self.lock.line.enter(&self.request.key, self.ends).await else {
            return self.last_word().await;
        };
        self.wait(turn).await
    }

    /// Asks, and waits to be woken, until granted or the wait is over.
    async fn wait(&mut self, _turn: Turn) -> Result<Option<LockGuard>> {
        let key = self.lock.client.lock_key(&self.request.key);
        let watcher = self.lock.client.hub.watch(key.clone());
        let mut backoff = Backoff::new(Duration::from_millis(5), LOOK_AGAIN);
        loop {
            let attempt = self.attempt(self.patience_in_wait()).await;
            if let Some(guard) = self.note(attempt)? {
                return Ok(Some(guard));
            }
            let pause = match self.trouble {
                Some(_) => backoff.next_pause(),
                None => self.until_next_look(&key).await,
            };
            if !self.pause(pause, &watcher).await {
                return self.last_word().await;
            }
        }
    }

    /// Asks once more at the end of a wait: what was busy when we last heard of it may be free by
    /// now, or the server may be gone, which is not the same as busy.
    async fn last_word(&mut self) -> Result<Option<LockGuard>> {
        self.attempt(self.patience_in_wait()).await
    }

    /// One request for the key. Dropping it here, at any point, drops the armed claim.
    async fn attempt(&mut self, limit: Duration) -> Result<Option<LockGuard>> {
        let mut connection = self.lock.client.command(limit).await?;
        let mut claim = match self.claim.take() {
            Some(claim) => claim,
            None => self.lock.keeper.claim(self.request)?,
        };
        let sent = claim.sending();
        let answer = self
            .lock
            .client
            .take(claim.id(), &mut connection, limit)
            .await;
        if let Ok(Some(grant)) = answer {
            let token = FencingToken::from_grant(grant)?;
            let ttl = claim.id().ttl();
            return claim
                .granted(token, sent, ttl)
                .map(Some)
                .ok_or_else(|| came_too_late(ttl));
        }
        if answer.is_ok() {
            claim.refused();
        }
        self.claim = Some(claim);
        answer.map(|_| None)
    }

    /// Remembers an attempt without a definite answer, as long as it makes sense to try again.
    fn note(&mut self, attempt: Result<Option<LockGuard>>) -> Result<Option<LockGuard>> {
        let error = match attempt {
            Ok(answer) => {
                self.trouble = None;
                return Ok(answer);
            }
            Err(error) => error,
        };
        let since = self
            .trouble
            .take()
            .map_or_else(Instant::now, |(_, since)| since);
        if !error.is_retryable() || since.elapsed() > OUTAGE_LIMIT {
            return Err(error);
        }
        tracing::debug!(key = %self.request.key, %error, "trying again");
        self.trouble = Some((error, since));
        Ok(None)
    }

    /// How long to sleep if nothing wakes us: until the holder's lease would end.
    async fn until_next_look(&self, key: &[u8]) -> Duration {
        match self.lock.client.look(key, self.patience_in_wait()).await {
            Ok(KeyState::Free) => Duration::ZERO,
            Ok(KeyState::HeldFor(left)) => left
                .saturating_add(Duration::from_millis(1))
                .min(LOOK_AGAIN),
            Ok(KeyState::Held) => LOOK_AGAIN,
            Err(error) => {
                tracing::debug!(key = %self.request.key, %error, "cannot watch; looking again soon");
                LOOK_AGAIN / 10
            }
        }
    }

    /// Sleeps until woken; `false` when the wait is over.
    async fn pause(&self, pause: Duration, watcher: &Watcher) -> bool {
        let wake = Instant::now() + pause;
        let wake = self.ends.map_or(wake, |ends| ends.min(wake));
        // Both arms are cancel safe: a missed notification stays for the next turn.
        tokio::select! {
            () = watcher.changed() => {}
            () = tokio::time::sleep_until(wake) => {}
        }
        self.ends.is_none_or(|ends| Instant::now() < ends)
    }

    /// How long an answer may take: a later grant would have to be renewed before its first use.
    fn patience(&self) -> Duration {
        REPLY_LIMIT.min(self.request.ttl() / 3)
    }

    /// On a long line an answer is no sign of trouble until it takes far longer than usual.
    fn grace(&self) -> Duration {
        GRACE.max(self.lock.client.latency() * 3)
    }

    fn patience_in_wait(&self) -> Duration {
        match self.ends {
            None => self.patience(),
            Some(ends) => {
                let left = ends.saturating_duration_since(Instant::now());
                self.patience().min(left + self.grace())
            }
        }
    }
}

fn came_too_late(ttl: Duration) -> Error {
    Error::new(
        ErrorKind::Unavailable,
        format!("the grant came too late for a ttl of {ttl:?}: use a longer ttl, or look at what slows the server"),
    )
    .with_backend(BACKEND)
}
