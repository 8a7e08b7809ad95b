//! The loop of an acquisition, for stores that keep no queue: ask, wait, ask again, until the key is granted or the wait
//! is over.

use std::future::{Future, pending};
use std::time::Duration;

use crate::{
    Backoff, Claim, Error, ErrorKind, FencingToken, HumanDuration, Keeper, LastReply, LocalQueue,
    LockGuard, LockRequest, Moment, Result, Retry,
};

/// The first and the longest pause between attempts that have no answer.
const PAUSES: [Duration; 2] = [Duration::from_millis(5), Duration::from_secs(1)];

/// A backend's part of an acquisition: how it asks its store, and what wakes a waiter.
///
/// [`acquire`] calls the methods from one task, one after the other.
pub trait Attempt: Send {
    /// True if a waiter lines up behind others of its process before it asks for the first time: where attempts that
    /// are made at the same time hinder each other. Default: it asks first, unless others wait.
    const LINES_UP_FIRST: bool = false;

    /// Asks the store for the key once, within [`Ask::limit`].
    ///
    /// The claim has to be [armed](Claim::sending) before a take is sent.
    ///
    /// # Errors
    ///
    /// Why nothing is known of the key. The claim is asked for again while the wait lasts, if that may pass.
    ///
    /// # Cancel safety
    ///
    /// The future may be dropped at any point: an armed claim is released.
    fn ask(&mut self, ask: Ask<'_>) -> impl Future<Output = Result<Answer>> + Send;

    /// Returns when the store answered last.
    fn last_reply(&self) -> LastReply;

    /// Prepares to be woken, before the waiter may have to line up behind others of its process.
    fn line_up(&mut self) {}

    /// Returns true if the store itself makes the waiter wait. One that lined up behind others had better wait there at
    /// once. Default: false.
    fn waits_in_the_store(&self) -> bool {
        false
    }

    /// Begins to wait: from now on, a change of the key wakes this waiter.
    ///
    /// # Errors
    ///
    /// Why it cannot wait.
    fn begin_to_wait(&mut self) -> Result<()> {
        Ok(())
    }

    /// Waits as long as the waiter has to before it asks again. Default: not at all.
    fn pace(&mut self) -> impl Future<Output = ()> + Send {
        std::future::ready(())
    }

    /// Waits until the key may have become free. Default: for ever.
    ///
    /// # Cancel safety
    ///
    /// A change that comes while nobody waits for it is told to the next call.
    fn changed(&mut self) -> impl Future<Output = ()> + Send {
        pending()
    }
}

/// One attempt.
#[derive(Debug)]
pub struct Ask<'a> {
    /// The claim, the same for all attempts of an acquisition, so that a resend is known as one.
    pub claim: &'a mut Claim,
    /// The time to wait for the answer.
    pub limit: Duration,
    /// True if this waiter waits: it is asked for again when the key is refused.
    pub waits: bool,
    /// The attempts so far, and when the wait ends.
    pub retry: &'a Retry,
}

/// The answer of the store to a take.
#[derive(Debug)]
pub enum Answer {
    /// The key is held by this claim.
    Granted {
        /// The number that the fencing token is made of.
        grant: u64,
        /// When the request was sent that won it.
        sent: Moment,
        /// For how long from `sent` on the store keeps it, lock delay included.
        ttl: Duration,
    },
    /// The key is held by others.
    Refused {
        /// When that was asked.
        sent: Moment,
        /// True if a take of the claim may still arrive at the store, so that it stays armed.
        may_arrive: bool,
        /// When to ask again if nothing wakes the waiter.
        next_ask: Duration,
    },
    /// The key is held by others, and the wait has ended while that was found out.
    Over,
}

struct Acquisition<'a, A> {
    keeper: &'a Keeper,
    request: &'a LockRequest,
    retry: Retry,
    claim: Option<Claim>,
    next_ask: Duration,
    is_over: bool,
    attempt: A,
}

/// Acquires the key of `request` by `attempt`, in turn with the other waiters of `queue`; `None` when it is held until the
/// wait is over. The store has `reply_limit` to answer, at most a third of the ttl.
///
/// # Errors
///
/// That of the last attempt, when the store is in trouble for longer than the wait, or in one that does not pass.
///
/// # Cancel safety
///
/// Dropping the future leaves nothing behind: what was asked for is released in the background.
pub async fn acquire<A: Attempt>(
    keeper: &Keeper,
    request: &LockRequest,
    queue: &LocalQueue,
    reply_limit: Duration,
    attempt: A,
) -> Result<Option<LockGuard>> {
    let mut acquisition = Acquisition {
        keeper,
        request,
        retry: Retry::new(request, reply_limit),
        claim: Some(keeper.claim(request)?),
        next_ask: Duration::ZERO,
        is_over: false,
        attempt,
    };
    if !acquisition.retry.waits() {
        return acquisition.ask(false).await;
    }
    // A waiter that comes while others of its process wait lines up behind them.
    let others_wait = queue.is_waited_for(&request.key);
    if !(A::LINES_UP_FIRST || others_wait)
        && let Some(guard) = acquisition.ask_and_note(false).await?
    {
        return Ok(Some(guard));
    }
    acquisition.attempt.line_up();
    let Some(_turn) = queue.enter(&request.key, &mut acquisition.retry).await? else {
        return acquisition.last_word().await;
    };
    let waits_at_once = others_wait && acquisition.attempt.waits_in_the_store();
    if A::LINES_UP_FIRST
        && !waits_at_once
        && let Some(guard) = acquisition.ask_and_note(false).await?
    {
        return Ok(Some(guard));
    }
    acquisition.wait().await
}

impl<A: Attempt> Acquisition<'_, A> {
    async fn wait(&mut self) -> Result<Option<LockGuard>> {
        self.attempt.begin_to_wait()?;
        let [first, longest] = PAUSES;
        let mut backoff = Backoff::new(first, longest);
        while !self.is_over {
            self.attempt.pace().await;
            if let Some(guard) = self.ask_and_note(true).await? {
                return Ok(Some(guard));
            }
            let pause = match self.retry.is_troubled() {
                true => backoff.next_pause(),
                false => self.next_ask,
            };
            if !self.retry.pause(pause, self.attempt.changed()).await {
                return self.last_word().await;
            }
        }
        Ok(None)
    }

    /// Asks once more at the end of a wait: what was held when the store answered last may be free by now, or the store
    /// may be gone, which is not the same.
    async fn last_word(&mut self) -> Result<Option<LockGuard>> {
        if self.is_over {
            return Ok(None);
        }
        let attempt = self.ask(false).await;
        self.retry.last_word(attempt)
    }

    async fn ask_and_note(&mut self, waits: bool) -> Result<Option<LockGuard>> {
        let attempt = self.ask(waits).await;
        self.retry.note(attempt, self.attempt.last_reply())
    }

    async fn ask(&mut self, waits: bool) -> Result<Option<LockGuard>> {
        let mut claim = match self.claim.take() {
            Some(claim) => claim,
            // The one before has won too late, and gives that back.
            None => self.keeper.claim(self.request)?,
        };
        let limit = self.retry.patience(self.attempt.last_reply());
        let ask = Ask {
            claim: &mut claim,
            limit,
            waits,
            retry: &self.retry,
        };
        match self.attempt.ask(ask).await {
            Ok(Answer::Granted { grant, sent, ttl }) => {
                let token = FencingToken::from_grant(grant)?;
                let guard = claim.granted(token, sent, ttl);
                guard.map(Some).ok_or_else(|| self.came_too_late())
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
                (self.next_ask, self.claim) = (next_ask, Some(claim));
                Ok(None)
            }
            Ok(Answer::Over) => {
                (self.is_over, self.claim) = (true, Some(claim));
                Ok(None)
            }
            Err(error) => {
                self.claim = Some(claim);
                Err(error)
            }
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
