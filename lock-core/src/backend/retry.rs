//! Retries of an acquisition: deadlines, and which errors to outlast.

use std::future::Future;
use std::time::Duration;

use tokio::time::Instant;

use crate::backend::followers::Followers;
use crate::backend::{Clock, HumanDuration, LastReply, Moment};
use crate::mutex::Mutex;
use crate::{Error, ErrorKind, LockRequest, Result, Wait};

/// Minimum time that an answer may arrive after the end of a wait. Waiting for a request sent in
/// time is better than misreading its silence.
const GRACE: Duration = Duration::from_millis(40);

/// Maximum of the same, so that a wait ends at most this much late.
const GRACE_MAX: Duration = Duration::from_millis(250);

/// Time for which the answer "held" stays valid at the end of a wait.
const RECENT: Duration = Duration::from_millis(500);

/// Number of attempts in a row that a store may answer too late for a short ttl.
const LATE_MAX: u32 = 20;

/// Time for which a wait without a limit outlasts an unreachable store.
pub(crate) const OUTAGE_LIMIT: Duration = Duration::from_secs(30);

/// The retries of one acquisition: its end, the limit of each answer, the errors to outlast.
///
/// A wait outlasts retryable errors until it ends. A wait without a limit fails when the store has
/// not answered for 30 seconds. At its end, a wait asks once more, to tell "held" from
/// "unreachable".
///
/// ```
/// use std::time::Duration;
/// use lock_core::LockRequest;
/// use lock_core::backend::Retry;
///
/// let request = LockRequest::exclusive("coupon/42")?.without_waiting();
/// let retry = Retry::new(&request, Duration::from_secs(2));
/// assert!(!retry.may_wait());
/// assert_eq!(retry.left(), Duration::ZERO);
/// # Ok::<(), lock_core::Error>(())
/// ```
#[derive(Debug)]
pub struct Retry {
    reply_limit: Duration,
    may_wait: bool,
    ends: Option<Instant>,
    /// The waiter's arrival, in this queue or an earlier one.
    begun: Moment,
    /// True if the last attempt got no definite answer.
    troubled: bool,
    /// When the last request was sent that the store answered with "held".
    refused: Option<Moment>,
    ttl: Duration,
    /// Number of attempts in a row that took a third of the ttl although the store was answering.
    late: u32,
    /// When the present attempt began.
    asked: Mutex<Moment>,
    followers: Vec<Followers>,
}

impl Retry {
    /// Creates the retries of `request`, on a store with at most `reply_limit` for each answer.
    pub fn new(request: &LockRequest, reply_limit: Duration) -> Self {
        let ends = request.wait().deadline();
        // A wait that is already over counts as no wait.
        let may_wait = request.wait() != Wait::No && ends.is_none_or(|ends| Instant::now() < ends);
        Self {
            // A grant after a third of the ttl would need a renewal before its first use.
            reply_limit: reply_limit.min(request.ttl() / 3),
            may_wait,
            ends: ends.filter(|_| may_wait),
            begun: request.arrived.unwrap_or_else(|| Clock::Boot.now()),
            troubled: false,
            refused: None,
            ttl: request.ttl(),
            late: 0,
            asked: Mutex::new(Clock::Boot.now()),
            followers: request.followers.iter().cloned().collect(),
        }
    }

    /// Returns true if the request may wait, so that several attempts are possible.
    pub fn may_wait(&self) -> bool {
        self.may_wait
    }

    /// Returns the end of the wait; `None` if it has no limit.
    pub fn ends(&self) -> Option<Instant> {
        self.ends
    }

    /// Returns the remaining time of the wait.
    pub fn left(&self) -> Duration {
        match self.ends {
            Some(ends) => ends.saturating_duration_since(Instant::now()),
            None if self.may_wait => Duration::MAX,
            None => Duration::ZERO,
        }
    }

    /// Returns the limit of the next answer, from the store's `last_reply`.
    ///
    /// At the end of a wait, an answer may take far longer than usual before it counts as missing.
    pub fn patience(&self, last_reply: LastReply) -> Duration {
        *self.asked.lock() = Clock::Boot.now();
        if self.ends.is_none() {
            return self.reply_limit;
        }
        self.reply_limit.min(self.left() + self.grace(last_reply))
    }

    /// Returns the time that an answer may arrive after the end of a wait.
    pub fn grace(&self, last_reply: LastReply) -> Duration {
        (last_reply.latency * 4).clamp(GRACE, GRACE_MAX)
    }

    /// Records that the store answered the request `sent` at that moment with "held".
    pub fn refused(&mut self, sent: Moment) {
        self.refused = Some(sent);
    }

    /// Records the outcome of an attempt: returns its answer, or `None` to try again.
    ///
    /// # Errors
    ///
    /// The error of the attempt, if another attempt is useless.
    pub fn note<T>(
        &mut self,
        attempt: Result<Option<T>>,
        last_reply: LastReply,
    ) -> Result<Option<T>> {
        let error = match attempt {
            Ok(answer) => {
                (self.troubled, self.late) = (false, 0);
                return Ok(answer);
            }
            Err(error) => error,
        };
        if self.is_too_late(&error, last_reply) {
            self.late += 1;
            if self.late >= LATE_MAX {
                return Err(too_short(self.ttl).with_source(error));
            }
        } else {
            self.late = 0;
        }
        let answered = last_reply.at.max(self.begun);
        if error.is_retryable() {
            let behind = self.followers.iter().filter_map(|all| all.0.upgrade());
            behind.for_each(|behind| behind.record_outage(&error, answered));
        }
        // The attempt had its time plus the grace; another one would only end later.
        let over = self.is_over() && !self.was_refused_just_now();
        if !error.is_retryable() || self.outlasts(answered) || over {
            return Err(error);
        }
        tracing::debug!(%error, "attempt failed, trying again");
        self.troubled = true;
        Ok(None)
    }

    /// Registers waiters to notify of outages.
    pub(crate) fn set_followers(&mut self, behind: Followers) {
        if !self.followers.contains(&behind) {
            self.followers.push(behind);
        }
    }

    /// Returns true if the store has not answered for too long, measured from `last_reply`.
    pub(crate) fn outlasts(&self, last_reply: Moment) -> bool {
        self.ends.is_none() && Clock::Boot.now().since(last_reply.max(self.begun)) > OUTAGE_LIMIT
    }

    /// Returns true if the last attempt got no definite answer.
    pub fn is_troubled(&self) -> bool {
        self.troubled
    }

    /// Returns the outcome of the last attempt of a wait.
    ///
    /// If the key was held a moment ago, a missing answer counts as "held": a short silence is no
    /// proof of an outage.
    ///
    /// # Errors
    ///
    /// The error of the attempt, if the store is unreachable.
    pub fn final_answer<T>(&self, attempt: Result<Option<T>>) -> Result<Option<T>> {
        match attempt {
            Err(error) if error.is_retryable() && self.was_refused_just_now() => Ok(None),
            outcome => outcome,
        }
    }

    /// Waits for `woken`, at most for `pause` and until the wait ends; false at that end.
    ///
    /// # Cancel safety
    ///
    /// As cancel safe as `woken`.
    pub async fn pause(&self, pause: Duration, woken: impl Future<Output = ()>) -> bool {
        let wake = Instant::now() + pause;
        let wake = self.ends.map_or(wake, |ends| ends.min(wake));
        tokio::select! {
            () = woken => {}
            () = tokio::time::sleep_until(wake) => {}
        }
        !self.is_over()
    }

    /// Returns true if the wait has reached its end.
    pub fn is_over(&self) -> bool {
        self.ends.is_some_and(|ends| ends <= Instant::now())
    }

    /// Returns true if the answer exceeded the ttl's limit although the store is answering.
    ///
    /// Another attempt would not be faster.
    fn is_too_late(&self, error: &Error, last_reply: LastReply) -> bool {
        let asked = *self.asked.lock();
        let took = Clock::Boot.now().since(asked);
        let is_late = self.reply_limit == self.ttl / 3 && took >= self.reply_limit;
        // An unreachable store has not answered since the last attempt.
        let is_alive = last_reply.at.plus(took * 2) >= asked;
        error.is_retryable() && is_late && is_alive
    }

    fn was_refused_just_now(&self) -> bool {
        let is_recent = |sent| Clock::Boot.now().since(sent) < RECENT;
        self.refused.is_some_and(is_recent)
    }
}

fn too_short(ttl: Duration) -> Error {
    Error::new(
        ErrorKind::Unavailable,
        format!(
            "ttl {} is too short for this store, whose answers took over a third of it {LATE_MAX} times in a row: choose a longer ttl",
            HumanDuration(ttl)
        ),
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::backend::ReplyStats;

    fn attempts(request: LockRequest) -> Retry {
        Retry::new(&request, Duration::from_secs(1))
    }

    fn request() -> LockRequest {
        LockRequest::exclusive("k").unwrap()
    }

    fn unavailable() -> Result<Option<()>> {
        Err(Error::new(ErrorKind::Unavailable, "no answer"))
    }

    #[tokio::test]
    async fn errors_that_may_pass_are_ridden_out_until_the_end() {
        let last_reply = ReplyStats::new().last();
        let mut waiting = attempts(request());
        assert!(waiting.note(unavailable(), last_reply).is_ok() && waiting.is_troubled());
        let denied: Result<Option<()>> = Err(Error::new(ErrorKind::Denied, "no"));
        assert!(waiting.note(denied, last_reply).is_err());
        let mut ending = attempts(request().waiting_at_most(Duration::from_millis(1)));
        assert!(
            !ending
                .pause(Duration::MAX / 4, std::future::pending())
                .await
        );
        assert!(ending.note(unavailable(), last_reply).is_err());
        assert!(ending.final_answer(unavailable()).is_err());
        ending.refused(Clock::Boot.now());
        assert!(ending.note(unavailable(), last_reply).is_ok());
        assert!(ending.final_answer(unavailable()).is_ok());
    }

    #[tokio::test]
    async fn a_store_that_is_too_slow_for_the_ttl_is_told_so() {
        let last_reply = ReplyStats::new();
        let mut slow = attempts(request().with_ttl(Duration::from_millis(50)));
        let mut attempt = async |answers: bool| {
            let patience = slow.patience(last_reply.last());
            tokio::time::sleep(patience).await;
            if answers {
                last_reply.note(Clock::Boot.now());
            }
            slow.note(unavailable(), last_reply.last())
        };
        // Attempts without any answer do not count: the store is silent, not slow.
        for _ in 0..LATE_MAX {
            assert!(attempt(false).await.is_ok());
        }
        for _ in 1..LATE_MAX {
            assert!(attempt(true).await.is_ok());
        }
        let error = attempt(true).await.expect_err("it is too slow");
        assert!(error.to_string().contains("a longer ttl"), "{error}");
    }

    #[tokio::test]
    async fn answers_are_waited_for_as_long_as_they_are_of_use() {
        let last_reply = ReplyStats::new().last();
        let once = attempts(request().without_waiting());
        assert_eq!(once.patience(last_reply), Duration::from_secs(1));
        assert!(!once.may_wait() && once.left().is_zero());
        assert!(!attempts(request().waiting_at_most(Duration::ZERO)).may_wait());
        let brief = attempts(request().with_ttl(Duration::from_millis(90)));
        assert_eq!(brief.patience(last_reply), Duration::from_millis(30));
        let ending = attempts(request().waiting_at_most(Duration::from_millis(100)));
        let patience = ending.patience(last_reply);
        assert!(patience > GRACE && patience <= Duration::from_millis(100) + GRACE);
    }
}
