//! The acquisition loop: ask, wait, ask again, until the key is granted or the wait ends.

use std::future::{Future, pending, ready};
use std::time::Duration;

use tokio::time::Instant;

use crate::backend::{
    Backoff, Claim, Clock, HumanDuration, Keeper, LastReply, LocalQueue, LocalTurn, Moment, Retry,
};
use crate::{Error, ErrorKind, FencingToken, LockGuard, LockRequest, Result};

/// First and longest pause between attempts that got no answer.
const PAUSES: [Duration; 2] = [Duration::from_millis(5), Duration::from_secs(1)];

/// The backend's part of an acquisition: how to ask the store, and what wakes a waiter.
///
/// [`acquire`] calls the methods from one task, one after the other.
///
/// ```
/// use lock_core::Result;
/// use lock_core::backend::{Answer, Ask, Attempt, HoldId, LastReply, ReplyStats};
/// # use std::time::Duration;
/// # async fn take(_: &HoldId, _: Duration) -> Result<Option<u64>> { Ok(None) }
///
/// struct Take<'a>(&'a ReplyStats);
///
/// impl Attempt for Take<'_> {
///     async fn ask(&mut self, ask: Ask<'_>) -> Result<Answer> {
///         let sent = ask.claim.sending();
///         let granted = take(ask.claim.id(), ask.limit).await?;
///         self.0.note(sent);
///         Ok(match granted {
///             Some(grant) => Answer::Granted { grant, sent, ttl: ask.claim.id().store_ttl() },
///             None => Answer::Refused {
///                 sent,
///                 may_arrive: false,
///                 next_ask: Duration::from_millis(100),
///             },
///         })
///     }
///
///     fn last_reply(&self) -> LastReply {
///         self.0.last()
///     }
/// }
/// ```
pub trait Attempt: Send {
    /// True if a waiter enters the local queue before its first request. Default: false, so that a
    /// waiter asks first unless other tasks of its process wait.
    ///
    /// For stores where concurrent attempts hinder each other, or may enter the store's queue out
    /// of order.
    const LINES_UP_FIRST: bool = false;

    /// Asks the store for the key once, within [`Ask::limit`].
    ///
    /// Implementations call [`Claim::sending`] before they send a take.
    ///
    /// # Errors
    ///
    /// The failure of the request. The loop asks again until the wait ends if the error is
    /// retryable.
    ///
    /// # Cancel safety
    ///
    /// The future may be dropped at any point: the loop releases an armed claim.
    fn ask(&mut self, ask: Ask<'_>) -> impl Future<Output = Result<Answer>> + Send;

    /// Returns the time and latency of the store's last answer.
    fn last_reply(&self) -> LastReply;

    /// Prepares to be woken. Called before the waiter enters the local queue, in which
    /// `others_wait`.
    #[expect(unused_variables, reason = "the default prepares nothing")]
    fn prepare_wait(&mut self, others_wait: bool) {}

    /// Starts the wait: from now on, a change of the key must wake this waiter.
    ///
    /// # Errors
    ///
    /// The reason why the waiter cannot be woken.
    fn begin_to_wait(&mut self) -> Result<()> {
        Ok(())
    }

    /// Waits until the waiter may ask again. Default: no wait.
    fn pace(&mut self) -> impl Future<Output = ()> + Send {
        ready(())
    }

    /// Waits until the key may have become free. Default: for ever.
    ///
    /// # Errors
    ///
    /// The failure of the watch. The wait continues if the error is retryable.
    ///
    /// # Cancel safety
    ///
    /// A change between two calls must resolve the next call.
    fn changed(&mut self) -> impl Future<Output = Result<()>> + Send {
        pending()
    }

    /// Removes the armed `claim` from the store after an unsuccessful wait, within `limit`, and
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

/// The parameters of one attempt.
#[derive(Debug)]
pub struct Ask<'a> {
    /// The claim. Attempts of one acquisition share it until it has [ended](Answer::Ended), so that
    /// the store recognizes a resend.
    pub claim: &'a mut Claim,
    /// Maximum time to wait for the answer.
    pub limit: Duration,
    /// True if the waiter has [begun to wait](Attempt::begin_to_wait), so that the store has to
    /// wake it after a refusal.
    pub is_waiting: bool,
    /// The state of the retries, with the end of the wait.
    pub retry: &'a mut Retry,
}

/// The answer of the store to a take.
#[derive(Debug)]
pub enum Answer {
    /// This claim holds the key.
    Granted {
        /// The grant number, from which the fencing token is made.
        grant: u64,
        /// When the request was sent. Validity counts from this moment.
        sent: Moment,
        /// The time from `sent` for which the store keeps the key,
        /// [reserve](crate::backend::HoldId::reserve) included.
        ttl: Duration,
    },
    /// Another claim holds the key.
    Refused {
        /// When the request was sent.
        sent: Moment,
        /// True if a take of the claim may still arrive at the store. The claim then stays armed.
        may_arrive: bool,
        /// The pause until the next request if nothing wakes the waiter.
        next_ask: Duration,
    },
    /// The key is held, and the claim has its place in the store's queue.
    ///
    /// [`changed`](Attempt::changed) watches that queue. The next waiter of this process may enter
    /// it now.
    Queued {
        /// When the request was sent.
        sent: Moment,
        /// The pause until the next request if nothing wakes the waiter.
        next_ask: Duration,
    },
    /// The claim can no longer win, since its lease or session has ended.
    ///
    /// The loop asks with a new claim while there is time, else fails with this error.
    Ended(Error),
    /// The key is held, and the wait ended during the request.
    Over,
}

struct Acquisition<'a, A> {
    keeper: &'a Keeper,
    request: &'a LockRequest,
    retry: Retry,
    claim: Option<Claim>,
    /// Kept until the store's queue contains the claim, or to the end.
    turn: Option<LocalTurn>,
    /// The pause after the last answer; `None` if the waiter has to ask again before it waits.
    next_ask: Option<Duration>,
    is_over: bool,
    attempt: A,
}

/// Acquires the key of `request` by repeated attempts; `None` if the wait ran out.
///
/// Waiters of the process take turns in `queue`; stores with their own queue need none.
/// `reply_limit` is the maximum wait for one answer; a third of the ttl if that is less.
///
/// # Errors
///
/// The error of the last attempt, if the store fails for longer than the wait or the error is not
/// retryable.
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
    let acquired = match acquisition.retry.may_wait() {
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
        // Do not overtake waiters of this process that arrived earlier.
        let others_wait = queue.is_some_and(|queue| queue.is_waited_for(&self.request.key));
        if !(A::LINES_UP_FIRST || others_wait)
            && let Some(guard) = self.ask_and_note(false).await?
        {
            return Ok(Some(guard));
        }
        self.attempt.prepare_wait(others_wait);
        if let Some(queue) = queue {
            self.turn = queue.enter(&self.request.key, &mut self.retry).await?;
            if self.turn.is_none() {
                return self.final_answer().await;
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
                return self.final_answer().await;
            }
            self.attempt.pace().await;
            if let Some(guard) = self.ask_and_note(true).await? {
                return Ok(Some(guard));
            }
        }
        Ok(None)
    }

    /// Waits for a change of the key or for the end of `pause`; false when the wait is over.
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

    /// Asks once more at the end of a wait. Since the last answer the key may have become free or
    /// the store unreachable, and the caller must know which.
    async fn final_answer(&mut self) -> Result<Option<LockGuard>> {
        let attempt = self.ask(false).await;
        self.retry.final_answer(attempt)
    }

    async fn ask_and_note(&mut self, is_waiting: bool) -> Result<Option<LockGuard>> {
        let attempt = self.ask(is_waiting).await;
        self.retry.note(attempt, self.attempt.last_reply())
    }

    async fn ask(&mut self, is_waiting: bool) -> Result<Option<LockGuard>> {
        let limit = self.retry.patience(self.attempt.last_reply());
        let ends = Clock::Boot.now().plus(limit);
        loop {
            let mut claim = match self.claim.take() {
                Some(claim) => claim,
                // The previous claim ended, or its grant came too late and is released in the
                // background.
                None => self.keeper.claim(self.request)?,
            };
            let ask = Ask {
                claim: &mut claim,
                limit: ends.since(Clock::Boot.now()),
                is_waiting,
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
                    self.next_ask = is_waiting.then_some(next_ask);
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

    /// Removes the claim from the store after an unsuccessful wait.
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
