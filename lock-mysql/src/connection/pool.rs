//! A pool of connections that one runtime drives.

use std::future::pending;
use std::ops::{Deref, DerefMut};
use std::sync::Arc;
use std::time::Duration;

use lock_core::backend::{Clock, Deadlines, Moment};
use lock_core::{Error, Result};
use tokio::runtime::Handle;
use tokio::sync::{OwnedSemaphorePermit, Semaphore, oneshot};

use crate::connection::allowance::Allowance;
use crate::connection::connect::Connector;
use crate::connection::held_back::{HeldBack, OPEN_AGAIN};
use crate::connection::idle::{CountedSession, IdleSessions};
use crate::connection::session::Session;
use crate::error::{Failure, RefusedConnection, abandoned, no_sockets, unavailable};

/// Maximum number of connections that are being opened at the same time.
const OPENED_AT_ONCE: usize = 4;

/// Minimum time that a request waits for a connection if the server refuses a further connection.
const REFUSED_LIMIT: Duration = Duration::from_millis(500);

/// Pause before a connection is opened after another connection was closed to make room.
const CLOSING_TIME: Duration = Duration::from_millis(5);

/// A pool that lends connections, and opens connections up to a limit.
///
/// A connection in a doubtful state is closed instead of taken back.
pub(crate) struct Pool {
    connector: Connector,
    pub(crate) deadlines: Deadlines,
    /// The runtime where the connections live. They end with it.
    pub(crate) runtime: Handle,
    /// The runtime where a request continues after its caller gave up, even if `runtime` is
    /// blocked.
    pub(crate) background: Handle,
    size: u32,
    permits: Arc<Semaphore>,
    /// Opening takes work, above all with TLS. A thousand connections at once would delay the
    /// heartbeats of locks.
    open_permits: Arc<Semaphore>,
    pub(crate) idle: Arc<IdleSessions>,
    allowance: Arc<Allowance>,
    held_back: HeldBack,
}

/// A lent connection. Dropping it returns a [reusable](Self::mark_reusable) connection to the pool,
/// and closes any other connection.
pub(crate) struct Lent {
    session: Option<CountedSession>,
    is_reusable: bool,
    /// True if an earlier request used the connection.
    pub(crate) used: bool,
    pool: Arc<Pool>,
    _permit: OwnedSemaphorePermit,
}

impl Pool {
    pub(crate) fn new(
        connector: Connector,
        deadlines: Deadlines,
        [runtime, background]: [&Handle; 2],
        size: u32,
    ) -> Arc<Self> {
        let permits = usize::try_from(size).unwrap_or(Semaphore::MAX_PERMITS);
        Arc::new(Self {
            allowance: Arc::clone(&connector.allowance),
            idle: (connector.allowance).enter(connector.purpose, [runtime.id(), background.id()]),
            connector,
            deadlines,
            runtime: runtime.clone(),
            background: background.clone(),
            size,
            permits: Arc::new(Semaphore::new(permits.min(Semaphore::MAX_PERMITS))),
            open_permits: Arc::new(Semaphore::new(OPENED_AT_ONCE)),
            held_back: HeldBack::default(),
        })
    }

    /// Lends a connection, or fails if none is available within `limit`.
    ///
    /// If the server refuses a further connection, waits for an open connection, for at least
    /// [`REFUSED_LIMIT`].
    pub(crate) async fn lend(self: &Arc<Self>, limit: Duration) -> Result<Lent> {
        let begun = Clock::Boot.now();
        let (mut ends, mut refusal) = (begun.plus(limit), None);
        loop {
            let Some(permit) = self.wait_for_permit(ends).await else {
                return Err(refusal.unwrap_or_else(|| self.exhausted()));
            };
            let (session, used) = match self.idle.take() {
                Some(session) => (session, true),
                None => match self.open_unless_refused().await {
                    Ok(opened) => opened,
                    Err(Failure::Refused(RefusedConnection { error, may_open })) => {
                        ends = begun.plus(limit.max(REFUSED_LIMIT));
                        let error = refusal.insert(error);
                        if !Box::pin(self.make_room(permit, may_open, ends)).await {
                            return Err(error.clone());
                        }
                        continue;
                    }
                    Err(failure) => return Err(failure.into_error()),
                },
            };
            return Ok(self.lent(session, used, permit));
        }
    }

    fn lent(
        self: &Arc<Self>,
        session: CountedSession,
        used: bool,
        permit: OwnedSemaphorePermit,
    ) -> Lent {
        Lent {
            session: Some(session),
            is_reusable: false,
            used,
            pool: Arc::clone(self),
            _permit: permit,
        }
    }

    async fn wait_for_permit(&self, ends: Moment) -> Option<OwnedSemaphorePermit> {
        if self.held_back.give_back() {
            self.permits.add_permits(1);
        }
        if let Ok(permit) = Arc::clone(&self.permits).try_acquire_owned() {
            return Some(permit);
        }
        let permit = Arc::clone(&self.permits).acquire_owned();
        let left = ends.since(Clock::Boot.now());
        self.deadlines.timeout(left, permit).await?.ok()
    }

    /// Waits until the pool can ask for a connection again, after the server has refused one.
    ///
    /// Returns `false` if that is too late.
    ///
    /// If the pool has open connections, their number is what the server allows. The pool then
    /// holds back the permit, and requests wait for these connections.
    ///
    /// A pool without connections has another pool give up a connection. So has a pool whose
    /// connections may all be locks. A connection is closed only if the server then accepts a new
    /// connection.
    async fn make_room(
        self: &Arc<Self>,
        permit: OwnedSemaphorePermit,
        may_open: bool,
        ends: Moment,
    ) -> bool {
        let lends_for_long = self.idle.purpose.lends_for_long;
        if may_open && lends_for_long && self.allowance.close_spare(&self.idle) {
            self.let_close().await;
            return Clock::Boot.now() < ends;
        }
        if self.held_back.hold_back(self.idle.opened(), self.size) {
            permit.forget();
            return true;
        }
        let left = ends.since(Clock::Boot.now());
        let room = self.allowance.ask_for_one(&self.idle, may_open);
        let answered = self.deadlines.timeout(left.min(OPEN_AGAIN), room).await;
        if answered.is_some() && self.idle.len() == 0 {
            self.let_close().await;
        }
        Clock::Boot.now() < ends
    }

    /// Gives the server time to notice that a connection was closed.
    async fn let_close(&self) {
        self.held_back.forget_refusal();
        self.deadlines.timeout(CLOSING_TIME, pending::<()>()).await;
    }

    pub(crate) fn lend_idle(self: &Arc<Self>) -> Option<Lent> {
        let permit = Arc::clone(&self.permits).try_acquire_owned().ok()?;
        Some(self.lent(self.idle.take()?, true, permit))
    }

    /// Opens a connection, or returns a recent refusal of the server.
    async fn open_unless_refused(self: &Arc<Self>) -> Result<(CountedSession, bool), Failure> {
        if let Some(refusal) = self.held_back.last_refusal() {
            return Err(Failure::Refused(refusal));
        }
        let opened = self.open().await;
        if let Err(Failure::Refused(refusal)) = &opened {
            self.held_back.note(refusal.clone());
        }
        opened
    }

    /// Opens a connection in its own task on `runtime`, or takes a session that became idle
    /// meanwhile.
    ///
    /// Returns true if the session was used before. If the caller has gone when a session is open,
    /// the session is left for the next request.
    async fn open(self: &Arc<Self>) -> Result<(CountedSession, bool), Failure> {
        let open_permit = Arc::clone(&self.open_permits).acquire_owned().await;
        if let Some(left) = self.idle.take() {
            return Ok((left, true));
        }
        let (pool, (opened, opening)) = (Arc::clone(self), oneshot::channel());
        let task = self.runtime.spawn(async move {
            let _open_permit = open_permit;
            let session = pool.connector.open(&pool.deadlines).await;
            let session = session.map(|session| pool.idle.count(session));
            if let Err(Ok(unwanted)) = opened.send(session) {
                pool.idle.put(unwanted);
            }
        });
        match opening.await {
            Ok(session) => Ok((session?, false)),
            Err(_) => match task.await {
                Err(ended) if ended.is_panic() => Err(no_sockets().into()),
                Ok(()) | Err(_) => Err(abandoned().into()),
            },
        }
    }

    fn exhausted(&self) -> Error {
        unavailable(format!(
            "all {} connections of this client are in use: with hold = \"row\" each held lock and each waited key needs one, with hold = \"lease\" each key whose row another transaction keeps locked; raise `connections`, or hold fewer at once",
            self.size
        ))
    }
}

impl Lent {
    /// Allows the pool to take the connection back, since no transaction is open on it.
    pub(crate) fn mark_reusable(&mut self) {
        self.is_reusable = true;
    }

    /// Closes the connection and all idle connections, since the server may not grant any more.
    pub(crate) fn demoted(&mut self) {
        self.is_reusable = false;
        self.pool.allowance.close_idle();
    }

    /// Prevents the pool from taking the connection back: it is closed.
    pub(crate) fn mark_broken(&mut self) {
        self.is_reusable = false;
    }
}

impl Deref for Lent {
    type Target = Session;

    fn deref(&self) -> &Session {
        let pooled = self.session.as_ref();
        &pooled.expect("it is there until it is dropped").session
    }
}

impl DerefMut for Lent {
    fn deref_mut(&mut self) -> &mut Session {
        let pooled = self.session.as_mut();
        &mut pooled.expect("it is there until it is dropped").session
    }
}

impl Drop for Lent {
    fn drop(&mut self) {
        if let Some(session) = self.session.take().filter(|_| self.is_reusable) {
            self.pool.idle.take_back(session);
        }
    }
}
