//! The loop of an acquisition: ask, wait, ask again, until the key is granted or the wait is over.

use std::future::{Future, pending, ready};
use std::time::Duration;

use tokio::time::Instant;

use crate::backend::{
    Backoff, Claim, Clock, HumanDuration, Keeper, LastReply, LocalQueue, LocalTurn, Moment, Retry,
};
use crate::{Error, ErrorKind, FencingToken, LockGuard, LockRequest, Result};

/// The first and the longest pause between attempts that have no answer.
const PAUSES: [Duration; 2] = [Duration::from_millis(5), Duration::from_secs(1)];

/// A backend's part of an acquisition: how it asks its store, and what wakes a waiter.
///
/// [`acquire`] calls the methods from one task, one after the other.
pub trait Attempt: Send {
    /// True if a waiter enters the local queue before it asks for the first time: for stores where
    /// attempts at the same time hinder each other, or may enter the store's queue in another
    /// order. Default: a waiter asks first, unless other tasks of its process wait.
    const LINES_UP_FIRST: bool = false;

    /// Asks the store for the key once, within [`Ask::limit`].
    ///
    /// The claim has to be [armed](Claim::sending) before a take is sent.
    ///
    /// # Errors
    ///
    /// The failure of the request. The loop asks again during the wait if the error is retryable.
    ///
    /// # Cancel safety
    ///
    /// The future may be dropped at any point: an armed claim is released.
    fn ask(&mut self, ask: Ask<'_>) -> impl Future<Output = Result<Answer>> + Send;

    /// Returns when the store answered last.
    fn last_reply(&self) -> LastReply;

    /// Prepares to be woken, before the waiter enters the local queue, in which `others_wait`.
    #[expect(unused_variables, reason = "the default prepares nothing")]
    fn line_up(&mut self, others_wait: bool) {}

    /// Begins to wait: from now on, a change of the key wakes this waiter.
    ///
    /// # Errors
    ///
    /// The reason why the waiter cannot be woken.
    fn begin_to_wait(&mut self) -> Result<()> {
        Ok(())
    }

    /// Waits as long as the waiter has to before it asks again. Default: not at all.
    fn pace(&mut self) -> impl Future<Output = ()> + Send {
        ready(())
    }

    /// Waits until the key may have become free. Default: for ever.
    ///
    /// # Errors
    ///
    /// The failure of the watch. The wait goes on if the error is retryable.
    ///
    /// # Cancel safety
    ///
    /// A change that comes between two calls is told to the next one.
    fn changed(&mut self) -> impl Future<Output = Result<()>> + Send {
        pending()
    }

    /// Takes the armed `claim` off the store after a wait in vain, within `limit`, and
    /// [disarms](Claim::refused) it. Default: the claim is released in the background.
    ///
    /// # Cancel safety
    ///
    /// The future may be dropped at any point: an armed claim is released in the background.
    #[expect(unused_variables, reason = "dropping the claim is all")]
    fn leave(&mut self, claim: &mut Claim, limit: Duration) -> impl Future<Output = ()> + Send {
        ready(())
    }
}

/// One attempt.
#[derive(Debug)]
pub struct Ask<'a> {
    /// The claim. All attempts of an acquisition have the same one until it has
    /// [ended](Answer::Ended), so that the store knows a resend.
    pub claim: &'a mut Claim,
    /// The time to wait for the answer.
    pub limit: Duration,
    /// True if the waiter has [begun to wait](Attempt::begin_to_wait), so that a refusal has to
    /// leave something behind that wakes it.
    pub waits: bool,
    /// The attempts so far, and when the wait ends.
    pub retry: &'a mut Retry,
}

/// The answer of the store to a take.
#[derive(Debug)]
pub enum Answer {
    /// The key is held by this claim.
    Granted {
        /// The number that the fencing token is made of.
        grant: u64,
        /// When the request was sent that the validity counts from.
        sent: Moment,
        /// For how long from `sent` on the store keeps it, lock delay included.
        ttl: Duration,
    },
    /// The key is held by another claim.
    Refused {
        /// When that was asked.
        sent: Moment,
        /// True if a take of the claim may still arrive at the store, so that it stays armed.
        may_arrive: bool,
        /// When to ask again if nothing wakes the waiter.
        next_ask: Duration,
    },
    /// The key is held, and the claim has its place in the queue of the store, which
    /// [`changed`](Attempt::changed) watches. The next waiter of this process may enter that queue
    /// now.
    Queued {
        /// When that was asked.
        sent: Moment,
        /// When to ask again if nothing wakes the waiter.
        next_ask: Duration,
    },
    /// The claim can win no more, since its lease or session has ended. The loop gives it up and
    /// asks with a new claim while there is time; after that the attempt has failed with this
    /// error.
    Ended(Error),
    /// The key is held, and the wait has ended during the request.
    Over,
}

struct Acquisition<'a, A> {
    keeper: &'a Keeper,
    request: &'a LockRequest,
    retry: Retry,
    claim: Option<Claim>,
    /// Kept until the store has the claim in its queue, or to the end.
    turn: Option<LocalTurn>,
    /// The pause after the last answer, unless the waiter has to ask again before it may wait.
    next_ask: Option<Duration>,
    is_over: bool,
    attempt: A,
}

/// Acquires the key of `request` by attempts; `None` if it is held until the wait is over.
///
/// Waiters of the process take turns in `queue`; stores with a queue of their own need none. The
/// store has `reply_limit` for each answer, but at most a third of the ttl.
///
/// # Errors
///
/// The error of the last attempt, if the store fails for longer than the wait, or with an error
/// that does not pass by itself.
///
/// # Cancel safety
///
/// Dropping the future releases the claim in the background.
pub async fn acquire<A: Attempt>(
    keeper: &Keeper,
    request: &LockRequest,
    queue: Option<&LocalQueue>,
    reply_limit: Duration,
    attempt: A,
) -> Result<Option<LockGuard>> {
    let mut acquisition = Acquisition {
        keeper,
        request,
        retry: Retry::new(request, reply_limit),
        claim: Some(keeper.claim(request)?),
        turn: None,
        next_ask: None,
        is_over: false,
        attempt,
    };
    let acquired = match acquisition.retry.waits() {
        true => acquisition.wait_in(queue).await?,
        false => acquisition.ask(false).await?,
    };
    if acquired.is_none() {
        acquisition.leave().await;
    }
    Ok(acquired)
}

impl<A: Attempt> Acquisition<'_, A> {
    async fn wait_in(&mut self, queue: Option<&LocalQueue>) -> Result<Option<LockGuard>> {
        // A waiter must not overtake those of its process that came before.
        let others_wait = queue.is_some_and(|queue| queue.is_waited_for(&self.request.key));
        if !(A::LINES_UP_FIRST || others_wait)
            && let Some(guard) = self.ask_and_note(false).await?
        {
            return Ok(Some(guard));
        }
        self.attempt.line_up(others_wait);
        if let Some(queue) = queue {
            self.turn = queue.enter(&self.request.key, &mut self.retry).await?;
            if self.turn.is_none() {
                return self.last_word().await;
            }
        }
        if A::LINES_UP_FIRST
            && let Some(guard) = self.ask_and_note(false).await?
        {
            return Ok(Some(guard));
        }
        self.wait().await
    }

    async fn wait(&mut self) -> Result<Option<LockGuard>> {
        self.attempt.begin_to_wait()?;
        let [first, longest] = PAUSES;
        let mut backoff = Backoff::new(first, longest);
        while !self.is_over {
            let pause = match self.retry.is_troubled() {
                true => Some(backoff.next_pause()),
                false => self.next_ask,
            };
            if let Some(pause) = pause
                && !self.until_woken(pause).await?
            {
                return self.last_word().await;
            }
            self.attempt.pace().await;
            if let Some(guard) = self.ask_and_note(true).await? {
                return Ok(Some(guard));
            }
        }
        Ok(None)
    }

    /// Waits for a change of the key, or for the time to ask without one; `false` when the wait is
    /// over.
    async fn until_woken(&mut self, pause: Duration) -> Result<bool> {
        let ask = Instant::now() + pause;
        loop {
            let mut failed = None;
            let changed = async { failed = self.attempt.changed().await.err() };
            let left = ask.saturating_duration_since(Instant::now());
            let goes_on = self.retry.pause(left, changed).await;
            let Some(error) = failed else {
                return Ok(goes_on);
            };
            let failed: Result<Option<()>> = Err(error);
            self.retry.note(failed, self.attempt.last_reply())?;
        }
    }

    /// Asks once more at the end of a wait. The key may have become free since the last answer, or
    /// the store unreachable, and the caller has to know which.
    async fn last_word(&mut self) -> Result<Option<LockGuard>> {
        let attempt = self.ask(false).await;
        self.retry.last_word(attempt)
    }

    async fn ask_and_note(&mut self, waits: bool) -> Result<Option<LockGuard>> {
        let attempt = self.ask(waits).await;
        self.retry.note(attempt, self.attempt.last_reply())
    }

    async fn ask(&mut self, waits: bool) -> Result<Option<LockGuard>> {
        let limit = self.retry.patience(self.attempt.last_reply());
        let ends = Clock::Boot.now().plus(limit);
        loop {
            let mut claim = match self.claim.take() {
                Some(claim) => claim,
                // The former claim has ended, or was granted too late and releases that.
                None => self.keeper.claim(self.request)?,
            };
            let ask = Ask {
                claim: &mut claim,
                limit: ends.since(Clock::Boot.now()),
                waits,
                retry: &mut self.retry,
            };
            match self.attempt.ask(ask).await {
                Ok(Answer::Granted { grant, sent, ttl }) => {
                    let token = FencingToken::from_grant(grant)?;
                    let guard = claim.granted(token, sent, ttl);
                    return guard.map(Some).ok_or_else(|| self.came_too_late());
                }
                Ok(Answer::Refused {
                    sent,
                    may_arrive,
                    next_ask,
                }) => {
                    if !may_arrive {
                        claim.refused();
                    }
                    self.retry.refused(sent);
                    self.next_ask = waits.then_some(next_ask);
                    self.claim = Some(claim);
                    return Ok(None);
                }
                Ok(Answer::Queued { sent, next_ask }) => {
                    self.retry.refused(sent);
                    self.next_ask = Some(next_ask);
                    (self.turn, self.claim) = (None, Some(claim));
                    return Ok(None);
                }
                Ok(Answer::Ended(error)) => {
                    if Clock::Boot.now() >= ends {
                        return Err(error);
                    }
                }
                Ok(Answer::Over) => {
                    (self.is_over, self.claim) = (true, Some(claim));
                    return Ok(None);
                }
                Err(error) => {
                    self.claim = Some(claim);
                    return Err(error);
                }
            }
        }
    }

    /// Takes the claim off the store after a wait in vain.
    async fn leave(&mut self) {
        let limit = self.retry.patience(self.attempt.last_reply());
        if let Some(mut claim) = self.claim.take()
            && claim.is_armed()
        {
            self.attempt.leave(&mut claim, limit).await;
        }
    }

    fn came_too_late(&self) -> Error {
        let ttl = HumanDuration(self.request.ttl());
        Error::new(
            ErrorKind::Unavailable,
            format!(
                "the grant came too late for a ttl of {ttl}: use a longer ttl, or look at what slows the store"
            ),
        )
        .with_backend(self.keeper.capabilities().backend)
    }
}
