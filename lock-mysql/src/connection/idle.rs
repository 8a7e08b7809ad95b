//! The idle sessions of a pool, and the queue of requests that wait for a session of another pool.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use lock_core::backend::Mutex;
use tokio::runtime;
use tokio::sync::Notify;

use crate::connection::session::Session;

/// The purpose of a pool, which decides which sessions it gives to another pool.
#[derive(Clone, Copy, Default)]
pub(crate) struct Purpose {
    /// True if a lent session may be a lock, and is lent as long as the lock is held.
    pub(crate) lends_for_long: bool,
    /// True if the pool keeps its last connection, for requests that free other connections.
    pub(crate) is_vital: bool,
}

pub(crate) struct IdleSessions {
    pub(crate) purpose: Purpose,
    /// The runtimes on which a session has to live for the pool to use it.
    runtimes: [runtime::Id; 2],
    sessions: Mutex<Vec<CountedSession>>,
    /// The number of open sessions of the pool, including lent sessions.
    opened: Arc<AtomicUsize>,
    queue: Arc<SessionQueue>,
}

/// A session that its pool counts.
///
/// Fields are dropped in order: the connection has ended when a waiting request is notified.
pub(crate) struct CountedSession {
    pub(crate) session: Session,
    opened: Opened,
}

/// The count of one open session, until this is dropped.
struct Opened {
    count: Arc<AtomicUsize>,
    queue: Arc<SessionQueue>,
}

/// The requests of a client that wait for a session of another pool, in order of arrival.
#[derive(Default)]
pub(crate) struct SessionQueue(Mutex<Vec<Arc<Queued>>>);

struct Queued {
    pool: Arc<IdleSessions>,
    /// True if the server accepts a new connection once another connection is closed.
    may_open: bool,
    answered: Notify,
}

/// A request's entry in the queue. Dropping it removes the entry.
pub(crate) struct QueueEntry(Arc<Queued>);

impl IdleSessions {
    pub(crate) fn new(
        purpose: Purpose,
        runtimes: [runtime::Id; 2],
        queue: Arc<SessionQueue>,
    ) -> Arc<Self> {
        Arc::new(Self {
            purpose,
            runtimes,
            sessions: Mutex::default(),
            opened: Arc::default(),
            queue,
        })
    }

    /// Counts a session that was just opened.
    pub(crate) fn count(&self, session: Session) -> CountedSession {
        self.opened.fetch_add(1, Ordering::SeqCst);
        CountedSession {
            session,
            opened: Opened {
                count: Arc::clone(&self.opened),
                queue: Arc::clone(&self.queue),
            },
        }
    }

    pub(crate) fn opened(&self) -> usize {
        self.opened.load(Ordering::SeqCst)
    }

    pub(crate) fn len(&self) -> usize {
        self.sessions.lock().len()
    }

    /// Takes the session that was used last, which the server is the least likely to have closed.
    pub(crate) fn take(&self) -> Option<CountedSession> {
        let mut sessions = self.sessions.lock();
        let newest = sessions.pop()?;
        if newest.session.is_stale() {
            sessions.clear();
            return None;
        }
        Some(newest)
    }

    pub(crate) fn put(&self, session: CountedSession) {
        self.sessions.lock().push(session);
    }

    /// Takes back a lent session, or gives it to a waiting request of another pool.
    ///
    /// Closes the session if no waiting request can use it, but a request can open a connection
    /// instead.
    pub(crate) fn take_back(&self, session: CountedSession) {
        let mut waiting = self.queue.0.lock();
        let uses = |request: &Arc<Queued>| self.can_give(&session, &request.pool);
        if let Some(number) = waiting.iter().position(uses) {
            let request = waiting.remove(number);
            drop(waiting);
            request.pool.take_in(session);
            request.answered.notify_one();
            return;
        }
        let is_closed = waiting.iter().any(|request| request.may_open);
        drop(waiting);
        if !is_closed {
            self.put(session);
        }
    }

    /// Returns true if the pool `to` can use the session.
    ///
    /// The session has to live on a runtime of `to`, and have the set-up of its sessions.
    fn can_give(&self, pooled: &CountedSession, to: &Self) -> bool {
        self.purpose.lends_for_long == to.purpose.lends_for_long
            && to.runtimes.contains(&pooled.session.opened_on)
    }

    /// Gives an idle session to the pool `to`; `false` if there is none that `to` can use.
    pub(crate) fn give(&self, to: &Self) -> bool {
        let mut sessions = self.sessions.lock();
        let usable =
            |session: &CountedSession| !session.session.is_stale() && self.can_give(session, to);
        let number = sessions.iter().rposition(usable);
        let given = number.map(|number| sessions.remove(number));
        drop(sessions);
        given.map(|session| to.take_in(session)).is_some()
    }

    /// Takes over a session of another pool.
    fn take_in(&self, mut session: CountedSession) {
        session.opened.count.fetch_sub(1, Ordering::SeqCst);
        session.opened.count = Arc::clone(&self.opened);
        session.opened.count.fetch_add(1, Ordering::SeqCst);
        self.put(session);
    }

    /// Enters a request of this pool in the queue for a session of another pool.
    pub(crate) fn enter_queue(self: &Arc<Self>, may_open: bool) -> QueueEntry {
        let request = Arc::new(Queued {
            pool: Arc::clone(self),
            may_open,
            answered: Notify::new(),
        });
        self.queue.0.lock().push(Arc::clone(&request));
        QueueEntry(request)
    }

    /// Closes one idle session; `false` if there is none.
    pub(crate) fn close_one(&self) -> bool {
        let closed = self.sessions.lock().pop();
        closed.is_some()
    }

    /// Closes all idle sessions: if a connection is dead, the other connections may be dead as
    /// well.
    pub(crate) fn close_all(&self) {
        let closed = std::mem::take(&mut *self.sessions.lock());
        drop(closed);
    }
}

impl QueueEntry {
    /// Waits until the pool was given a session, or may open a new connection.
    pub(crate) async fn answered(&self) {
        self.0.answered.notified().await;
    }
}

impl Drop for QueueEntry {
    fn drop(&mut self) {
        let mut waiting = self.0.pool.queue.0.lock();
        waiting.retain(|request| !Arc::ptr_eq(request, &self.0));
    }
}

impl Drop for Opened {
    /// Notifies the first request that can open a new connection instead of this closed connection.
    fn drop(&mut self) {
        self.count.fetch_sub(1, Ordering::SeqCst);
        let mut waiting = self.queue.0.lock();
        if let Some(number) = waiting.iter().position(|request| request.may_open) {
            waiting.remove(number).answered.notify_one();
        }
    }
}
