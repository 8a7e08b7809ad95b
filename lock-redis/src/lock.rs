//! Taking and waiting.

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use lock_core::{
    Backoff, Capabilities, Claim, Clock, DistributedLock, Error, ErrorKind, FencingToken,
    HumanDuration, Keeper, KeeperRuntime, LocalQueue, LocalTurn, LockGuard, LockRequest, Moment,
    Result, Retry, TTL_RANGE, TokenOrder,
};

use crate::RedisConfig;
use crate::calls::Asks;
use crate::client::{Answer, Client, REPLY_LIMIT};
use crate::connection::Connection;
use crate::error::BACKEND;
use crate::link::Link;
use crate::pace::Pace;
use crate::wake::Watcher;

/// How long a waiter trusts the server to tell of a change before it looks by itself.
const LOOK_AGAIN: Duration = Duration::from_secs(1);

/// How often a waiter looks whom the server does not tell: from the first pause to the last.
const LOOKS: [Duration; 2] = [Duration::from_millis(5), Duration::from_millis(100)];

/// When a hold is renewed first, since from then on the server tells of its removal. The take itself does not listen, which
/// would cost every lock something.
const FIRST_RENEWAL: Duration = Duration::from_millis(250);

/// Locks on one Redis (or Valkey) server, version 6 or later.
///
/// All three modes, taken in one round trip each. Waiters of one process are served in order; among
/// processes whoever asks first after a release gets the lock, but who has waited longest, of another process or mode, has
/// its turn after 5 ms of that: the key is then kept for it for up to 10 ms when it becomes free, and no reader or permit joins
/// those that hold it. Tries and other processes find the key held meanwhile. Programs of other kinds, and versions before,
/// take it whenever it is free.
///
/// On a server that has no `CLIENT TRACKING`, or does not let us use it, waiters look every 100 ms or more often, and a hold
/// that was removed is noticed by its next renewal; `capabilities().push` says so.
///
/// A request without a wait fails when the server has not answered within a second (a third of the
/// ttl, if that is less). A wait rides out a server that cannot be reached until the wait ends; one
/// that has no end of its own, for 30 seconds.
#[derive(Clone, Debug)]
pub struct RedisLock {
    client: Arc<Client>,
    keeper: Keeper,
    line: LocalQueue,
}

impl RedisLock {
    /// Connects to the server of `config`.
    ///
    /// # Errors
    ///
    /// [`Config`](ErrorKind::Config) for a malformed URL or certificate file,
    /// [`Unavailable`](ErrorKind::Unavailable) when the server does not answer within 2 s, or not
    /// over TLS where that is asked for, [`Denied`](ErrorKind::Denied) when it refuses user,
    /// password or client certificate, or its own certificate is not to be trusted,
    /// [`Unsupported`](ErrorKind::Unsupported) for a version before 6, a Redis Cluster, a Sentinel, and a server without
    /// `EVAL` and `EVALSHA`.
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
        client.hub.set_recheck(keeper.recheck_handle());
        Ok(Self {
            client,
            keeper,
            line: LocalQueue::new(),
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
            async move { Acquisition::new(&lock, &request)?.run().await }
        };
        self.keeper.acquire(request, take).await
    }

    async fn shutdown(&self, within: Duration) -> Result<()> {
        self.keeper.shutdown(within).await
    }
}

/// One acquisition: its claim, and what came of its attempts.
struct Acquisition<'a> {
    lock: &'a RedisLock,
    request: &'a LockRequest,
    attempts: Retry,
    lane: Arc<Link>,
    /// Kept over attempts without a definite answer, so that a resend is known as one.
    claim: Option<Claim>,
    unanswered: Unanswered,
    /// Whether the server is to tell us of the next change, if it tells of any.
    listens: bool,
    /// Whether it will do so.
    is_told: bool,
    /// How long to sleep if nothing wakes us: until the holder's lease would end.
    next_look: Duration,
}

impl<'a> Acquisition<'a> {
    fn new(lock: &'a RedisLock, request: &'a LockRequest) -> Result<Self> {
        Ok(Self {
            lock,
            request,
            attempts: Retry::new(request, REPLY_LIMIT),
            lane: lock.client.lane()?,
            claim: Some(lock.keeper.claim(request)?),
            unanswered: Unanswered::default(),
            listens: false,
            is_told: false,
            next_look: LOOK_AGAIN,
        })
    }

    async fn run(&mut self) -> Result<Option<LockGuard>> {
        if !self.attempts.waits() {
            return self.attempt().await;
        }
        // Whoever comes while others wait in this process lines up behind them.
        if !self.lock.line.is_waited_for(&self.request.key)
            && let Some(guard) = self.attempt_and_note().await?
        {
            return Ok(Some(guard));
        }
        let line = &self.lock.line;
        let key = self.lock.client.lock_key(&self.request.key);
        let watcher = self.lock.client.hub.watch(key);
        match line.enter(&self.request.key, &mut self.attempts).await? {
            Some(turn) => self.wait(turn, watcher).await,
            None => self.last_word().await,
        }
    }

    /// Asks, and waits to be woken, until granted or the wait is over.
    async fn wait(&mut self, _turn: LocalTurn, watcher: Watcher) -> Result<Option<LockGuard>> {
        watcher.begin();
        self.listens = true;
        let mut backoff = Backoff::new(Duration::from_millis(5), LOOK_AGAIN);
        let [first, longest] = LOOKS;
        let mut looks = Backoff::new(first, longest);
        let mut pace = Pace::new();
        loop {
            pace.step().await;
            if let Some(guard) = self.attempt_and_note().await? {
                return Ok(Some(guard));
            }
            let pause = match self.attempts.is_troubled() {
                true => backoff.next_pause(),
                false if self.is_told => self.next_look,
                false => self.next_look.min(looks.next_pause()),
            };
            // Cancel safe: a missed notification stays for the next turn.
            if !self.attempts.pause(pause, watcher.changed()).await {
                return self.last_word().await;
            }
        }
    }

    /// Asks once more at the end of a wait: what was busy when we last heard of it may be free by
    /// now, or the server may be gone, which is not the same as busy.
    async fn last_word(&mut self) -> Result<Option<LockGuard>> {
        self.listens = false;
        let attempt = self.attempt().await;
        self.attempts.last_word(attempt)
    }

    async fn attempt_and_note(&mut self) -> Result<Option<LockGuard>> {
        let attempt = self.attempt().await;
        self.attempts.note(attempt, self.lane.heard())
    }

    /// Asks for the key. A connection that the server had closed while it was idle shows only when
    /// it is used: then the request is sent again on a new one, and is known as the same.
    async fn attempt(&mut self) -> Result<Option<LockGuard>> {
        let ends = Clock::Boot.now().plus(self.patience());
        match self.ask(ends).await {
            Err(error)
                if error.is_retryable()
                    && self.lane.current().is_none()
                    && Clock::Boot.now() < ends =>
            {
                self.ask(ends).await
            }
            outcome => outcome,
        }
    }

    /// One request for the key, connecting included, answered before `ends`. Dropping it here, at
    /// any point, drops the armed claim.
    async fn ask(&mut self, ends: Moment) -> Result<Option<LockGuard>> {
        let left = || ends.since(Clock::Boot.now());
        let connection = self.lane.connection_within(left()).await?;
        let mut claim = match self.claim.take() {
            Some(claim) => claim,
            None => self.lock.keeper.claim(self.request)?,
        };
        self.is_told = self.listens && connection.pushes;
        let asks = match (self.listens, self.is_told) {
            (false, _) => Asks::Once,
            (true, false) => Asks::Waiting,
            (true, true) => Asks::Listening,
        };
        let sent = claim.sending();
        let answer = self
            .lock
            .client
            .take(claim.id(), &self.lane, &connection, asks, left())
            .await;
        self.unanswered.note(&connection, answer.is_err());
        match answer {
            Ok(Answer::Granted(grant)) => {
                let token = FencingToken::from_grant(grant)?;
                let (ttl, store_ttl) = (claim.id().ttl(), claim.id().store_ttl());
                claim
                    .granted(token, sent, store_ttl)
                    .map(Some)
                    .ok_or_else(|| came_too_late(ttl))
            }
            Ok(Answer::Busy(left)) => {
                if !self.unanswered.may_arrive {
                    claim.refused();
                }
                self.attempts.refused(sent);
                self.claim = Some(claim);
                let until_free = left.map(|left| left.saturating_add(Duration::from_millis(1)));
                self.next_look = until_free.map_or(LOOK_AGAIN, |left| left.min(LOOK_AGAIN));
                Ok(None)
            }
            Err(error) => {
                self.claim = Some(claim);
                Err(error)
            }
        }
    }

    fn patience(&self) -> Duration {
        self.attempts.patience(self.lane.heard())
    }
}

/// Where takes were sent that were not answered.
#[derive(Default)]
struct Unanswered {
    /// The connection of the last one.
    on: Option<Arc<Connection>>,
    /// Whether one may still arrive, whatever is answered to others.
    may_arrive: bool,
}

impl Unanswered {
    /// Notes how a take ended on `connection`, where an answer means that all takes before it have arrived. Of another
    /// connection it says nothing: the server may have got what was sent there, and not got to it yet.
    fn note(&mut self, connection: &Arc<Connection>, is_unanswered: bool) {
        let before = self.on.take();
        self.may_arrive |= before.is_some_and(|before| !Arc::ptr_eq(&before, connection));
        self.on = is_unanswered.then(|| Arc::clone(connection));
    }
}

fn came_too_late(ttl: Duration) -> Error {
    Error::new(
        ErrorKind::Unavailable,
        format!("the grant came too late for a ttl of {}: use a longer ttl, or look at what slows the server", HumanDuration(ttl)),
    )
    .with_backend(BACKEND)
}
