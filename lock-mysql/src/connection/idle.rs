//! Sessions of a pool that are open and not lent, and the requests of other pools that wait for
//! one.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use lock_core::backend::Mutex;
use tokio::runtime;
use tokio::sync::Notify;

use crate::connection::session::Session;

/// The purpose of a pool, as far as it decides which sessions it gives to another one.
#[derive(Clone, Copy, Default)]
pub(crate) struct Purpose {
    /// True if what is lent may be a lock, and stay away for as long as that is held.
    pub(crate) lends_for_long: bool,
    /// True if the last connection is kept for what gets the others back.
    pub(crate) is_vital: bool,
}

/// The idle sessions of one pool.
pub(crate) struct IdleSessions {
    pub(crate) purpose: Purpose,
    /// Where a session may live for the pool to use it.
    runtimes: [runtime::Id; 2],
    sessions: Mutex<Vec<CountedSession>>,
    /// The number of sessions of the pool that are open, with those that are lent.
    opened: Arc<AtomicUsize>,
    queue: Arc<SessionQueue>,
}

/// A session that its pool counts. Fields are dropped in order: the connection has ended when a
/// waiting request hears of it.
pub(crate) struct CountedSession {
    pub(crate) session: Session,
    opened: Opened,
}

/// Counts one open session as long as it lives.
struct Opened {
    count: Arc<AtomicUsize>,
    queue: Arc<SessionQueue>,
}

/// The requests of a client that wait for a session of another pool, in the order in which they
/// came.
#[derive(Default)]
pub(crate) struct SessionQueue(Mutex<Vec<Arc<Queued>>>);

struct Queued {
    pool: Arc<IdleSessions>,
    /// The server takes a new connection once another one is closed.
    may_open: bool,
    answered: Notify,
}

/// A request's entry in the queue; dropping it takes it out.
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

    /// Returns how many sessions of the pool are open.
    pub(crate) fn opened(&self) -> usize {
        self.opened.load(Ordering::SeqCst)
    }

    pub(crate) fn len(&self) -> usize {
        self.sessions.lock().len()
    }

    /// Takes out the session that was used last, which is the least likely to be closed by now.
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

    /// Takes a session back that was lent, unless a request of another pool waits for it. Closes it
    /// if such a request can only open another one instead.
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

    /// Returns true if `to` can use a session of this pool: one that lives where `to` or its
    /// background does, and is set up as those of `to` are.
    fn can_give(&self, pooled: &CountedSession, to: &Self) -> bool {
        self.purpose.lends_for_long == to.purpose.lends_for_long
            && to.runtimes.contains(&pooled.session.opened_on)
    }

    /// Moves an idle session that `to` can use to it; `false` if there is none.
    pub(crate) fn give(&self, to: &Self) -> bool {
        let mut sessions = self.sessions.lock();
        let usable =
            |session: &CountedSession| !session.session.is_stale() && self.can_give(session, to);
        let number = sessions.iter().rposition(usable);
        let given = number.map(|number| sessions.remove(number));
        drop(sessions);
        given.map(|session| to.take_in(session)).is_some()
    }

    /// Has a session of another pool.
    fn take_in(&self, mut session: CountedSession) {
        session.opened.count.fetch_sub(1, Ordering::SeqCst);
        session.opened.count = Arc::clone(&self.opened);
        session.opened.count.fetch_add(1, Ordering::SeqCst);
        self.put(session);
    }

    /// Has a request of this pool wait for a session of another one.
    pub(crate) fn enter_queue(self: &Arc<Self>, may_open: bool) -> QueueEntry {
        let request = Arc::new(Queued {
            pool: Arc::clone(self),
            may_open,
            answered: Notify::new(),
        });
        self.queue.0.lock().push(Arc::clone(&request));
        QueueEntry(request)
    }

    /// Closes one session; `false` if there is none.
    pub(crate) fn close_one(&self) -> bool {
        let closed = self.sessions.lock().pop();
        closed.is_some()
    }

    /// Closes all sessions: when one connection is dead, the others may be as well.
    pub(crate) fn close_all(&self) {
        let closed = std::mem::take(&mut *self.sessions.lock());
        drop(closed);
    }
}

impl QueueEntry {
    /// Waits until the pool was given a session, or another one may be opened.
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
    /// Tells the first request that can open another connection that this one was closed.
    fn drop(&mut self) {
        self.count.fetch_sub(1, Ordering::SeqCst);
        let mut waiting = self.queue.0.lock();
        if let Some(number) = waiting.iter().position(|request| request.may_open) {
            waiting.remove(number).answered.notify_one();
        }
    }
}
