//! Looks at lines that many share.
//!
//! A line is read as a whole, so a crowd in which each claim looks for itself reads the square of its length, and what
//! keeps holds alive waits behind all that. Here one look at a line is under way at a time, and answers everybody who
//! asked before it was sent. Few lines are looked at at once in a session.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use lock_core::{Clock, Moment, Mutex};
use tokio::runtime::Handle;
use tokio::sync::{Semaphore, oneshot};
use zookeeper_client::Error as ZooKeeperError;

use crate::queue::Queue;
use crate::session::node::DriverResult;
use crate::session::requests::Session;

/// The number of looks that are under way at once in a session.
const LOOKS_AT_ONCE: usize = 8;

/// The time that a line is remembered.
const REMEMBERED: Duration = Duration::from_secs(5);

/// From how many lines on those are forgotten that nobody has looked at lately.
const LINES_MIN: usize = 64;

/// A line, and when the request was sent that its session was confirmed by.
pub(crate) type Seen = (Moment, Arc<Queue>);

type Asker = oneshot::Sender<DriverResult<Seen>>;

/// The looks of one session.
#[derive(Debug)]
pub(crate) struct Looks {
    lines: Mutex<HashMap<Arc<str>, Entry>>,
    limit: Semaphore,
    runtime: Handle,
}

#[derive(Debug, Default)]
struct Entry {
    is_under_way: bool,
    askers: Vec<Asker>,
    /// The line that was seen last, and when that was asked.
    last: Option<(Moment, Seen)>,
}

/// A look that is under way; the next one begins when it is dropped, if somebody waits for it.
struct SharedLook<'a> {
    session: &'a Arc<Session>,
    lock: &'a Arc<str>,
}

impl Looks {
    /// Makes the looks of the session that lives on `runtime`.
    pub(crate) fn new(runtime: Handle) -> Self {
        Self {
            lines: Mutex::default(),
            limit: Semaphore::new(LOOKS_AT_ONCE),
            runtime,
        }
    }

    /// The line of `lock` as somebody has seen it who asked after `moment`.
    pub(crate) fn seen_since(&self, lock: &str, moment: Moment) -> Option<Seen> {
        let lines = self.lines.lock();
        let (sent, seen) = lines.get(lock)?.last.as_ref()?;
        (*sent > moment).then(|| seen.clone())
    }

    /// Enters the line of `lock`; `None` for whoever has to look at it now.
    fn ask(&self, lock: &Arc<str>) -> Option<oneshot::Receiver<DriverResult<Seen>>> {
        let mut lines = self.lines.lock();
        if lines.len() >= LINES_MIN && !lines.contains_key(lock) {
            let now = Clock::Boot.now();
            lines.retain(|_, entry| {
                let last = entry.last.as_ref();
                entry.is_under_way || last.is_some_and(|(sent, _)| now.since(*sent) < REMEMBERED)
            });
        }
        let entry = lines.entry(Arc::clone(lock)).or_default();
        if !entry.is_under_way {
            entry.is_under_way = true;
            return None;
        }
        let (asker, answer) = oneshot::channel();
        entry.askers.push(asker);
        Some(answer)
    }
}

impl Session {
    /// Looks at the line of `lock` through the leader, and has the session confirmed; together with others who
    /// ask for the same.
    pub(crate) async fn look_together(self: &Arc<Self>, lock: &Arc<str>) -> DriverResult<Seen> {
        if let Some(answer) = self.looks().ask(lock) {
            return answer.await.unwrap_or(Err(ZooKeeperError::ConnectionLoss));
        }
        let under_way = SharedLook {
            session: self,
            lock,
        };
        let seen = under_way.look().await;
        drop(under_way);
        seen
    }
}

impl SharedLook<'_> {
    /// Looks at the line, and answers those who ask until the look is sent.
    async fn look(&self) -> DriverResult<Seen> {
        let looks = self.session.looks();
        let _one_of_few = looks.limit.acquire().await;
        let askers = match looks.lines.lock().get_mut(self.lock) {
            Some(entry) => std::mem::take(&mut entry.askers),
            None => Vec::new(),
        };
        let sent = Clock::Boot.now();
        let (confirmed, children) = match self.session.confirmed_lately() {
            Some(confirmed) => (confirmed, self.session.list(self.lock).await),
            None => (sent, self.session.look_and_confirm(self.lock).await),
        };
        let seen = children.map(|children| (confirmed, Arc::new(Queue::new(children))));
        if let (Ok(seen), Some(entry)) = (&seen, looks.lines.lock().get_mut(self.lock)) {
            entry.last = Some((sent, seen.clone()));
        }
        for asker in askers {
            // Whoever asked may have gone.
            let _ = asker.send(seen.clone());
        }
        seen
    }
}

impl Drop for SharedLook<'_> {
    fn drop(&mut self) {
        let looks = self.session.looks();
        let is_wanted = match looks.lines.lock().get_mut(self.lock) {
            Some(entry) => {
                entry.is_under_way = !entry.askers.is_empty();
                entry.is_under_way
            }
            None => false,
        };
        if is_wanted {
            let (session, lock) = (Arc::clone(self.session), Arc::clone(self.lock));
            looks.runtime.spawn(async move {
                let next = SharedLook {
                    session: &session,
                    lock: &lock,
                };
                // Those who asked are told.
                let _seen = next.look().await;
            });
        }
    }
}
