//! One acquisition: asks, waits to be woken and asks again, until granted or the wait is over.

use std::time::Duration;

use lock_core::{
    Backoff, Claim, Error, ErrorKind, FencingToken, HumanDuration, LocalTurn, LockGuard,
    LockRequest, Moment, Result, Retry,
};

use crate::error::{BACKEND, Failure};
use crate::row::takes::RowWait;
use crate::{MySqlHold, MySqlLock};

/// How long an answer may take, if nothing shorter applies: longer than InnoDB waits for a row.
const REPLY_LIMIT: Duration = Duration::from_secs(2);

/// How long a waiter pauses at most between attempts that have no answer.
const LONGEST_PAUSE: Duration = Duration::from_secs(1);

/// How long it relies on the poller, which wakes it also when it cannot look any more.
const ASK_AGAIN: Duration = Duration::from_secs(60 * 60);

/// How soon it asks again at the earliest.
const SHORTEST_PAUSE: Duration = Duration::from_millis(5);

/// One acquisition: its claim, and what came of its attempts.
pub(crate) struct Acquisition<'a> {
    lock: &'a MySqlLock,
    request: &'a LockRequest,
    retry: Retry,
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
    pub(crate) fn new(lock: &'a MySqlLock, request: &'a LockRequest) -> Result<Self> {
        Ok(Self {
            lock,
            request,
            retry: Retry::new(request, REPLY_LIMIT),
            claim: Some(lock.keeper.claim(request)?),
            outlocked: false,
            told: None,
            row_wait: RowWait::begin(),
        })
    }

    pub(crate) async fn run(&mut self) -> Result<Option<LockGuard>> {
        if !self.retry.waits() {
            return Box::pin(self.attempt(false)).await;
        }
        let queue = &self.lock.queue;
        let others_wait = queue.is_waited_for(&self.request.key);
        match queue.enter(&self.request.key, &mut self.retry).await? {
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
        let wake_up = match self.lock.client.hold {
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
            let pause = match (&wake_up, self.retry.is_troubled()) {
                (_, true) => backoff.next_pause(),
                (Some(_), false) => ASK_AGAIN,
                // The server has waited for us, unless it is a lease that is in the way.
                (None, false) => SHORTEST_PAUSE,
            };
            let woken = async {
                match &wake_up {
                    Some(wake_up) => wake_up.changed().await,
                    None => std::future::pending().await,
                }
            };
            if !self.retry.pause(pause, woken).await {
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
        self.retry.last_word(attempt)
    }

    async fn attempt_and_note(&mut self, wait: bool) -> Result<Option<LockGuard>> {
        let attempt = Box::pin(self.attempt(wait)).await;
        self.retry.note(attempt, self.lock.client.heard.last())
    }

    /// One request for the key. Dropping it here, at any point, drops the armed claim.
    ///
    /// Box it: a waiter would have room for it all the time.
    async fn attempt(&mut self, wait: bool) -> Result<Option<LockGuard>> {
        let client = &self.lock.client;
        let patience = self.retry.patience(client.heard.last());
        let left = self.retry.left();
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
                self.retry.refused(begun);
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
        let grace = self.retry.grace(client.heard.last());
        let is_locked = Box::pin(client.is_locked(&self.request.key, grace));
        if client.hold == MySqlHold::Lease && error.is_retryable() && !is_told && is_locked.await {
            self.retry.refused(begun);
            self.outlocked = self.retry.is_over();
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
