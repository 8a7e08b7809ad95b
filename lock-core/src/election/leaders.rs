//! [`Leaders`]: the leaders of an election as an observer sees them.

use std::fmt;
use std::future::poll_fn;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};
use std::time::{Duration, SystemTime};

use futures_core::Stream;
use tokio::time::{Instant, sleep_until};

use crate::backend::{Backoff, Mutex};
use crate::{DistributedLock, HolderInfo, KeyInfo, LockKey, Mode, Result};

/// Pause between two looks at a store that answers.
const INTERVAL: Duration = Duration::from_millis(250);

/// First and longest pause after a look that the store did not answer.
const PAUSES: [Duration; 2] = [Duration::from_millis(250), Duration::from_secs(5)];

/// One leader of an election, as an observer sees it.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Leader {
    /// The [identity](crate::Election::identity) of the leader; `None` if its client stored none,
    /// as earlier versions do.
    pub identity: Option<String>,
    /// The [number](crate::Term::number) of its term.
    pub number: u64,
    /// When the leader sent the request that won, by the clock of its machine, which may be wrong.
    pub since: Option<SystemTime>,
}

/// A stream of the leaders of an election, from [`Election::observe`](crate::Election::observe).
///
/// It begins with the present leader, if there is one. It asks the store every 250 ms, and so
/// yields a new leader at most that time and a round trip after its term began. Numbers grow
/// strictly: no term comes twice, and none comes after a later one. A term that ended before the
/// stream could read it is missing. That a leader was yielded does not mean that it still leads.
///
/// While the store is unavailable, the stream goes on asking, after pauses of 250 ms, growing to 5
/// s. It ends with the error of a store that refuses the client or cannot tell who leads
/// ([`Unsupported`](crate::ErrorKind::Unsupported)), and with
/// [`Closed`](crate::ErrorKind::Closed) after a shutdown.
///
/// It asks only while it is polled. It implements `Stream` of `futures-core`, whose item is
/// `Result<Leader>`.
pub struct Leaders {
    /// Absent while `next` has it, and after the end.
    observer: Option<Observer>,
    next: Mutex<Option<Looking>>,
}

type Looking = Pin<Box<dyn Future<Output = (Option<Observer>, Result<Leader>)> + Send>>;

/// The state of an observer between two leaders.
struct Observer {
    locks: Arc<dyn DistributedLock>,
    key: LockKey,
    /// The number of the last leader.
    last: Option<u64>,
    /// The earliest time of the next look.
    look_at: Instant,
}

impl Leaders {
    pub(super) fn new(locks: Arc<dyn DistributedLock>, key: LockKey) -> Self {
        let observer = Observer {
            locks,
            key,
            last: None,
            look_at: Instant::now(),
        };
        Self {
            observer: Some(observer),
            next: Mutex::default(),
        }
    }

    /// Waits for the next leader, or for the error with which the stream ends; `None` afterwards.
    ///
    /// # Cancel safety
    ///
    /// Cancel safe: no leader gets lost.
    pub async fn next(&mut self) -> Option<Result<Leader>> {
        poll_fn(|context| Pin::new(&mut *self).poll_next(context)).await
    }
}

impl Stream for Leaders {
    type Item = Result<Leader>;

    fn poll_next(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Result<Leader>>> {
        let leaders = self.get_mut();
        let mut next = leaders.next.lock();
        if let Some(observer) = leaders.observer.take() {
            *next = Some(Box::pin(observer.next()));
        }
        let Some(looking) = next.as_mut() else {
            return Poll::Ready(None);
        };
        let (observer, leader) = ready!(looking.as_mut().poll(context));
        *next = None;
        leaders.observer = observer;
        Poll::Ready(Some(leader))
    }
}

impl Observer {
    /// Looks until there is a new leader or an error that a repetition does not mend.
    async fn next(mut self) -> (Option<Self>, Result<Leader>) {
        let mut backoff = Backoff::new(PAUSES[0], PAUSES[1]);
        loop {
            sleep_until(self.look_at).await;
            let pause = match self.locks.inspect_key(&self.key).await {
                Ok(info) => {
                    let leader = newest(&info).filter(|leader| Some(leader.number) > self.last);
                    self.look_at = Instant::now() + INTERVAL;
                    if let Some(leader) = leader {
                        self.last = Some(leader.number);
                        return (Some(self), Ok(leader));
                    }
                    backoff = Backoff::new(PAUSES[0], PAUSES[1]);
                    INTERVAL
                }
                Err(error) if error.is_retryable() => {
                    tracing::debug!(%error, key = %self.key, "the leader is unknown, looking again");
                    backoff.next_pause()
                }
                Err(error) => return (None, Err(error)),
            };
            self.look_at = Instant::now() + pause;
        }
    }
}

/// Returns the holder with the latest grant as the leader.
fn newest(info: &KeyInfo) -> Option<Leader> {
    let leads = |holder: &&HolderInfo| holder.mode.is_none_or(|mode| mode == Mode::Exclusive);
    let numbered = info.holders.iter().filter(leads);
    let numbered = numbered.filter_map(|holder| Some((holder.token?.value(), holder)));
    let (number, holder) = numbered.max_by_key(|(number, _)| *number)?;
    let process = || Some(format!("{}:{}", holder.host.as_ref()?, holder.pid?));
    Some(Leader {
        identity: holder.label.clone().or_else(process),
        number,
        since: holder.since,
    })
}

impl fmt::Debug for Leaders {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let observer = self.observer.as_ref();
        f.debug_struct("Leaders")
            .field("key", &observer.map(|observer| &observer.key))
            .field("last", &observer.and_then(|observer| observer.last))
            .finish_non_exhaustive()
    }
}
