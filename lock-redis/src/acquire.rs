//! One acquisition: asks, waits to be woken and asks again, until granted or the wait is over.

use std::sync::Arc;
use std::time::Duration;

use lock_core::{
    Backoff, Claim, Clock, Error, ErrorKind, FencingToken, HumanDuration, LocalTurn, LockGuard,
    LockRequest, Moment, Result, Retry,
};

use crate::RedisLock;
use crate::client::{Answer, REPLY_LIMIT};
use crate::commands::calls::Asks;
use crate::connection::multiplexed::Connection;
use crate::connection::shared::SharedConnection;
use crate::error::BACKEND;
use crate::notifications::WakeUp;
use crate::wake_rate_limit::WakeRateLimit;

/// How long a waiter trusts the server to tell of a change before it looks by itself.
const LOOK_AGAIN: Duration = Duration::from_secs(1);

/// How often a waiter looks whom the server does not tell: from the first pause to the last.
const LOOKS: [Duration; 2] = [Duration::from_millis(5), Duration::from_millis(100)];

/// One acquisition: its claim, and what came of its attempts.
pub(crate) struct Acquisition<'a> {
    lock: &'a RedisLock,
    request: &'a LockRequest,
    retry: Retry,
    command: Arc<SharedConnection>,
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
    pub(crate) fn new(lock: &'a RedisLock, request: &'a LockRequest) -> Result<Self> {
        Ok(Self {
            lock,
            request,
            retry: Retry::new(request, REPLY_LIMIT),
            command: lock.client.command()?,
            claim: Some(lock.keeper.claim(request)?),
            unanswered: Unanswered::default(),
            listens: false,
            is_told: false,
            next_look: LOOK_AGAIN,
        })
    }

    pub(crate) async fn run(&mut self) -> Result<Option<LockGuard>> {
        if !self.retry.waits() {
            return self.attempt().await;
        }
        // Whoever comes while others wait in this process lines up behind them.
        if !self.lock.queue.is_waited_for(&self.request.key)
            && let Some(guard) = self.attempt_and_note().await?
        {
            return Ok(Some(guard));
        }
        let queue = &self.lock.queue;
        let key = self.lock.client.lock_key(&self.request.key);
        let wake_up = self.lock.client.notifications.watch(key);
        match queue.enter(&self.request.key, &mut self.retry).await? {
            Some(turn) => self.wait(turn, wake_up).await,
            None => self.last_word().await,
        }
    }

    /// Asks, and waits to be woken, until granted or the wait is over.
    async fn wait(&mut self, _turn: LocalTurn, wake_up: WakeUp) -> Result<Option<LockGuard>> {
        wake_up.begin();
        self.listens = true;
        let mut backoff = Backoff::new(Duration::from_millis(5), LOOK_AGAIN);
        let [first, longest] = LOOKS;
        let mut looks = Backoff::new(first, longest);
        let mut rate_limit = WakeRateLimit::new();
        loop {
            rate_limit.step().await;
            if let Some(guard) = self.attempt_and_note().await? {
                return Ok(Some(guard));
            }
            let pause = match self.retry.is_troubled() {
                true => backoff.next_pause(),
                false if self.is_told => self.next_look,
                false => self.next_look.min(looks.next_pause()),
            };
            // Cancel safe: a missed notification stays for the next turn.
            if !self.retry.pause(pause, wake_up.changed()).await {
                return self.last_word().await;
            }
        }
    }

    /// Asks once more at the end of a wait: what was busy when we last heard of it may be free by
    /// now, or the server may be gone, which is not the same as busy.
    async fn last_word(&mut self) -> Result<Option<LockGuard>> {
        self.listens = false;
        let attempt = self.attempt().await;
        self.retry.last_word(attempt)
    }

    async fn attempt_and_note(&mut self) -> Result<Option<LockGuard>> {
        let attempt = self.attempt().await;
        self.retry.note(attempt, self.command.replies())
    }

    /// Asks for the key. A connection that the server had closed while it was idle shows only when
    /// it is used: then the request is sent again on a new one, and is known as the same.
    async fn attempt(&mut self) -> Result<Option<LockGuard>> {
        let ends = Clock::Boot.now().plus(self.patience());
        match self.ask(ends).await {
            Err(error)
                if error.is_retryable()
                    && self.command.current().is_none()
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
        let connection = self.command.connection_within(left()).await?;
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
            .take(claim.id(), &self.command, &connection, asks, left())
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
                self.retry.refused(sent);
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
        self.retry.patience(self.command.replies())
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
