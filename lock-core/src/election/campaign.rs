//! [`Election`]: candidates that lead one after the other.

use std::future::Future;
use std::sync::Arc;
use std::time::Duration;

use crate::api::lock_ext::wait_forever;
use crate::backend::Backoff;
use crate::election::leaders::Leaders;
use crate::election::led::run_work;
use crate::election::term::Term;
use crate::{DistributedLock, HoldWatch, LockRequest, Result, Wait};

/// First and longest pause of a candidate after a term that ended too early, or an error.
const PAUSES: [Duration; 2] = [Duration::from_millis(50), Duration::from_secs(5)];

/// The default margin, as a part of the ttl, and its maximum.
const MARGIN_PART: u32 = 10;
const MARGIN_MAX: Duration = Duration::from_secs(1);

/// A candidate in the election of one leader among many processes.
///
/// The leader is the holder of the lock of the same name, so a plain lock on that key takes part in
/// the election, too.
///
/// ```
/// use std::sync::Arc;
/// use lock_core::{DistributedLock, Election, MemoryLock};
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> lock_core::Result<()> {
/// let locks: Arc<dyn DistributedLock> = Arc::new(MemoryLock::new());
/// let election = Election::new(locks, "billing")?;
/// let term = election.campaign().await?;
/// println!("term {} begins", term.number());
/// term.resign().await?;
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Debug)]
pub struct Election {
    locks: Arc<dyn DistributedLock>,
    request: LockRequest,
    margin: Option<Duration>,
}

impl Election {
    /// Creates a candidate in the election `name`.
    ///
    /// # Errors
    ///
    /// [`InvalidKey`](crate::ErrorKind::InvalidKey) if `name` is empty or over 255 bytes.
    pub fn new(locks: Arc<dyn DistributedLock>, name: impl AsRef<str>) -> Result<Self> {
        let mut request = LockRequest::exclusive(name)?;
        // Observers know a term by its grant on the store.
        request.own_grant = true;
        Ok(Self {
            locks,
            request,
            margin: None,
        })
    }

    /// Sets the name under which [observers](Self::observe) see this candidate as the leader.
    /// Default: host and number of the process, as in `web-1:42`.
    ///
    /// It is the [label](LockRequest::labelled) of the lock. It need not be unique, and it decides
    /// nothing.
    ///
    /// # Errors
    ///
    /// [`Config`](crate::ErrorKind::Config) if it is empty, has more than 64 bytes, or contains
    /// control characters.
    pub fn identity(mut self, identity: impl AsRef<str>) -> Result<Self> {
        self.request = self.request.labelled(identity)?;
        Ok(self)
    }

    /// Sets the time that a term survives without a renewal. Default: the client's ttl. A killed
    /// leader is followed after this time.
    #[must_use]
    pub fn with_ttl(mut self, ttl: Duration) -> Self {
        self.request.ttl = Some(ttl);
        self
    }

    /// Sets how long before the end of an unrenewed term [`lead`](Self::lead) drops its work.
    /// Default: a tenth of the ttl, at most 1 second. Range: up to half of the ttl.
    ///
    /// The margin gives a busy program the time to drop the work before the next leader begins.
    #[must_use]
    pub fn with_step_down_margin(mut self, margin: Duration) -> Self {
        self.margin = Some(margin);
        self
    }

    /// Observes the leaders of this election, of whichever process, without taking part in it.
    ///
    /// ```
    /// use std::sync::Arc;
    /// use lock_core::{DistributedLock, Election, MemoryLock};
    ///
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> lock_core::Result<()> {
    /// let locks: Arc<dyn DistributedLock> = Arc::new(MemoryLock::new());
    /// let election = Election::new(locks, "billing")?.identity("billing-1")?;
    /// let mut leaders = election.observe();
    /// let term = election.campaign().await?;
    /// let leader = leaders.next().await.expect("observed for ever")?;
    /// assert_eq!(leader.identity.as_deref(), Some("billing-1"));
    /// assert_eq!(leader.number, term.number());
    /// # Ok(())
    /// # }
    /// ```
    pub fn observe(&self) -> Leaders {
        Leaders::new(Arc::clone(&self.locks), self.request.key.clone())
    }

    /// Waits until this candidate leads.
    ///
    /// # Errors
    ///
    /// The errors of [`acquire`](DistributedLock::acquire).
    ///
    /// # Cancel safety
    ///
    /// Dropping the future withdraws the candidate.
    pub async fn campaign(&self) -> Result<Term> {
        let guard = wait_forever(&*self.locks, self.request.clone()).await?;
        Ok(Term::new(guard))
    }

    /// Waits at most `limit` until this candidate leads; else withdraws it.
    ///
    /// # Errors
    ///
    /// The errors of [`acquire`](DistributedLock::acquire).
    ///
    /// # Cancel safety
    ///
    /// Dropping the future withdraws the candidate.
    pub async fn campaign_within(&self, limit: Duration) -> Result<Option<Term>> {
        let request = self.request.clone().with_wait(Wait::within(limit));
        Ok(self.locks.acquire(request).await?.map(Term::new))
    }

    /// Runs `work` whenever this candidate leads, until it returns.
    ///
    /// If the term ends first, the future of `work` is dropped before the next leader can begin, and
    /// the candidate campaigns again after a pause (50 ms, growing to 5 s). If the thread of the
    /// future is blocked by another task, the keeper drops the future from its own thread (with a
    /// keeper [on the caller's runtime](crate::KeeperMode::Caller), the future is not polled again). A future
    /// that itself blocks is not polled again. So is one whose process is stopped past its term; a
    /// poll that is under way at the stop goes on to its next await, so send the token with each
    /// write. When the work returns or panics, the candidate resigns.
    ///
    /// ```
    /// use std::sync::Arc;
    /// use lock_core::{DistributedLock, Election, MemoryLock};
    ///
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> lock_core::Result<()> {
    /// let locks: Arc<dyn DistributedLock> = Arc::new(MemoryLock::new());
    /// let election = Election::new(locks, "billing")?;
    /// let bills = election.lead(|term| async move {
    ///     println!("write with token {}", term.token());
    ///     42
    /// });
    /// assert_eq!(bills.await?, 42);
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    ///
    /// Errors that a repetition does not mend, such as [`Denied`](crate::ErrorKind::Denied) or
    /// [`Closed`](crate::ErrorKind::Closed). While the store is unavailable, the candidate campaigns
    /// again.
    ///
    /// # Cancel safety
    ///
    /// Dropping the future drops the work and resigns in the background.
    pub async fn lead<W, F>(&self, mut work: W) -> Result<F::Output>
    where
        W: FnMut(HoldWatch) -> F,
        F: Future + Send + 'static,
    {
        let mut backoff = Backoff::new(PAUSES[0], PAUSES[1]);
        loop {
            match self.campaign().await {
                Ok(term) => {
                    let began = tokio::time::Instant::now();
                    let margin = self.margin_of(term.remaining());
                    let output = run_work(&term, margin, work(term.watch())).await;
                    let number = term.number();
                    let resigned = term.resign().await;
                    if let Some(output) = output {
                        if let Err(error) = resigned {
                            tracing::warn!(%error, number, "the term is over, resigning not confirmed");
                        }
                        return Ok(output);
                    }
                    tracing::warn!(key = %self.request.key, number, "the term of this leader has ended, campaigning again");
                    if began.elapsed() > PAUSES[1] {
                        backoff = Backoff::new(PAUSES[0], PAUSES[1]);
                    }
                }
                Err(error) if error.is_retryable() => {
                    tracing::warn!(%error, "the candidate campaigns again");
                }
                Err(error) => return Err(error),
            }
            tokio::time::sleep(backoff.next_pause()).await;
        }
    }

    /// Returns the margin for a term of which `left` remains after its grant.
    fn margin_of(&self, left: Duration) -> Duration {
        let margin = self.margin.unwrap_or((left / MARGIN_PART).min(MARGIN_MAX));
        margin.min(left / 2)
    }
}
