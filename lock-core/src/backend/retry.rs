//! The state of an acquisition that asks its store again and again, and its decisions about errors.

use std::future::Future;
use std::time::Duration;

use tokio::time::Instant;

use crate::backend::followers::Followers;
use crate::backend::{Clock, LastReply, Moment};
use crate::mutex::Mutex;
use crate::{Error, ErrorKind, LockRequest, Result, Wait};

/// The shortest time that an answer may come after the end of a wait: a request that was sent in
/// time is better waited for than misread.
const GRACE: Duration = Duration::from_millis(40);

/// ... and at most: a wait that is a little late is better than one that is much longer than asked.
const GRACE_MAX: Duration = Duration::from_millis(250);

/// The time for which the answer that the key is held stays valid at the end of a wait.
const RECENT: Duration = Duration::from_millis(500);

/// So often in a row a store may answer too late for a short ttl.
const LATE_MAX: u32 = 20;

/// The time for which a wait without a limit outlasts a store that cannot be reached.
pub(crate) const OUTAGE_LIMIT: Duration = Duration::from_secs(30);

/// The attempts of one acquisition, for stores that keep no queue: until when to go on, how long to
/// wait for each answer, and which errors to outlast.
///
/// A wait goes on over errors that may pass, until it ends; one that has no end of its own gives up
/// when the store has not answered for 30 seconds. At its end a wait asks once more: "held" and
/// "broken" are not the same.
#[derive(Debug)]
pub struct Retry {
    reply_limit: Duration,
    waits: bool,
    ends: Option<Instant>,
    /// When the waiter came, also where that was in another line before.
    begun: Moment,
    /// True if the last attempt had no definite answer.
    troubled: bool,
    /// When the last request was sent to which the answer was that the key is held.
    refused: Option<Moment>,
    ttl: Duration,
    /// The number of attempts in a row that took a third of the ttl, while the store answered
    /// others.
    late: u32,
    /// When the present attempt began.
    asked: Mutex<Moment>,
    followers: Vec<Followers>,
}

impl Retry {
    /// For `request`, on a store that is given `reply_limit` to answer at most.
    pub fn new(request: &LockRequest, reply_limit: Duration) -> Self {
        let ends = request.wait().deadline();
        // A wait that is over when it begins is none.
        let waits = request.wait() != Wait::No && ends.is_none_or(|ends| Instant::now() < ends);
        Self {
            // A grant after a third of the ttl would have to be renewed before its first use.
            reply_limit: reply_limit.min(request.ttl() / 3),
            waits,
            ends: ends.filter(|_| waits),
            begun: request.arrived.unwrap_or_else(|| Clock::Boot.now()),
            troubled: false,
            refused: None,
            ttl: request.ttl(),
            late: 0,
            asked: Mutex::new(Clock::Boot.now()),
            followers: request.followers.iter().cloned().collect(),
        }
    }

    /// Returns true if there may be more than one.
    pub fn waits(&self) -> bool {
        self.waits
    }

    /// When the wait ends, if it ends by itself.
    pub fn ends(&self) -> Option<Instant> {
        self.ends
    }

    /// Returns how much of the wait is left.
    pub fn left(&self) -> Duration {
        match self.ends {
            Some(ends) => ends.saturating_duration_since(Instant::now()),
            None if self.waits => Duration::MAX,
            None => Duration::ZERO,
        }
    }

    /// Returns how long to wait for the next answer of a store of which so much was `heard`. At the
    /// end of a wait, an answer is no sign of trouble until it takes far longer than usual.
    pub fn patience(&self, heard: LastReply) -> Duration {
        *self.asked.lock() = Clock::Boot.now();
        if self.ends.is_none() {
            return self.reply_limit;
        }
        self.reply_limit.min(self.left() + self.grace(heard))
    }

    /// Returns how far an answer may come after the end of a wait.
    pub fn grace(&self, heard: LastReply) -> Duration {
        (heard.latency * 4).clamp(GRACE, GRACE_MAX)
    }

    /// Notes that the answer to what was `sent` then was that the key is held.
    pub fn refused(&mut self, sent: Moment) {
        self.refused = Some(sent);
    }

    /// Takes note of an attempt: its answer, or `None` to go on.
    ///
    /// # Errors
    ///
    /// The error of the attempt, when it makes no sense to try again.
    pub fn note<T>(&mut self, attempt: Result<Option<T>>, heard: LastReply) -> Result<Option<T>> {
        let error = match attempt {
            Ok(answer) => {
                (self.troubled, self.late) = (false, 0);
                return Ok(answer);
            }
            Err(error) => error,
        };
        if self.is_too_late(&error, heard) {
            self.late += 1;
            if self.late >= LATE_MAX {
                return Err(too_short(self.ttl).with_source(error));
            }
        } else {
            self.late = 0;
        }
        let heard = heard.at.max(self.begun);
        if error.is_retryable() {
            let behind = self.followers.iter().filter_map(|all| all.0.upgrade());
            behind.for_each(|behind| behind.cut_off(&error, heard));
        }
        // It was given its time, and a little more; another attempt would only come later.
        let over = self.is_over() && !self.was_refused_just_now();
        if !error.is_retryable() || self.outlasts(heard) || over {
            return Err(error);
        }
        tracing::debug!(%error, "trying again");
        self.troubled = true;
        Ok(None)
    }

    /// Has those behind told of the outages that are ridden out.
    pub(crate) fn tell(&mut self, behind: Followers) {
        if !self.followers.contains(&behind) {
            self.followers.push(behind);
        }
    }

    /// Returns true if the wait has lasted too long since the store last answered, at `heard`.
    pub(crate) fn outlasts(&self, heard: Moment) -> bool {
        self.ends.is_none() && Clock::Boot.now().since(heard.max(self.begun)) > OUTAGE_LIMIT
    }

    /// Returns true if the last attempt had no definite answer.
    pub fn is_troubled(&self) -> bool {
        self.troubled
    }

    /// Returns what the last attempt of a wait that is over comes to. A moment's silence is no
    /// proof of trouble, if the key was held a moment ago.
    ///
    /// # Errors
    ///
    /// The error of the attempt, if the store is in trouble.
    pub fn last_word<T>(&self, attempt: Result<Option<T>>) -> Result<Option<T>> {
        match attempt {
            Err(error) if error.is_retryable() && self.was_refused_just_now() => Ok(None),
            outcome => outcome,
        }
    }

    /// Pauses until `woken`, but no longer than the wait; `false` when that is over.
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

    /// Returns true if the wait has come to its own end.
    pub fn is_over(&self) -> bool {
        self.ends.is_some_and(|ends| ends <= Instant::now())
    }

    /// Returns true if the answer took longer than the ttl allows, although the store answers:
    /// another attempt would not be quicker.
    fn is_too_late(&self, error: &Error, heard: LastReply) -> bool {
        let asked = *self.asked.lock();
        let took = Clock::Boot.now().since(asked);
        let is_late = self.reply_limit == self.ttl / 3 && took >= self.reply_limit;
        // A silent store has not answered since the last attempt.
        let is_alive = heard.at.plus(took * 2) >= asked;
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
            "the store answers, but {LATE_MAX} times in a row not within a third of the ttl of {ttl:?}: choose a longer ttl"
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
        let heard = ReplyStats::new().last();
        let mut waiting = attempts(request());
        assert!(waiting.note(unavailable(), heard).is_ok() && waiting.is_troubled());
        let denied: Result<Option<()>> = Err(Error::new(ErrorKind::Denied, "no"));
        assert!(waiting.note(denied, heard).is_err());
        let mut ending = attempts(request().waiting_at_most(Duration::from_millis(1)));
        assert!(
            !ending
                .pause(Duration::MAX / 4, std::future::pending())
                .await
        );
        assert!(ending.note(unavailable(), heard).is_err());
        assert!(ending.last_word(unavailable()).is_err());
        ending.refused(Clock::Boot.now());
        assert!(ending.note(unavailable(), heard).is_ok());
        assert!(ending.last_word(unavailable()).is_ok());
    }

    #[tokio::test]
    async fn a_store_that_is_too_slow_for_the_ttl_is_told_so() {
        let heard = ReplyStats::new();
        let mut slow = attempts(request().with_ttl(Duration::from_millis(50)));
        let mut attempt = async |answers: bool| {
            let patience = slow.patience(heard.last());
            tokio::time::sleep(patience).await;
            if answers {
                heard.note(Clock::Boot.now());
            }
            slow.note(unavailable(), heard.last())
        };
        // A store that is silent is ridden out as always.
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
        let heard = ReplyStats::new().last();
        let once = attempts(request().without_waiting());
        assert_eq!(once.patience(heard), Duration::from_secs(1));
        assert!(!once.waits() && once.left().is_zero());
        assert!(!attempts(request().waiting_at_most(Duration::ZERO)).waits());
        let brief = attempts(request().with_ttl(Duration::from_millis(90)));
        assert_eq!(brief.patience(heard), Duration::from_millis(30));
        let ending = attempts(request().waiting_at_most(Duration::from_millis(100)));
        let patience = ending.patience(heard);
        assert!(patience > GRACE && patience <= Duration::from_millis(100) + GRACE);
    }
}
