//! Connections that are driven by one runtime.

use std::fmt;
use std::future::pending;
use std::ops::{Deref, DerefMut};
use std::sync::Arc;
use std::time::Duration;

use lock_core::{Clock, Deadlines, Error, Moment, Mutex, Result};
use tokio::runtime::Handle;
use tokio::sync::{OwnedSemaphorePermit, Semaphore, oneshot};

use crate::connection::allowance::{Allowance, Opened};
use crate::connection::connect::Connector;
use crate::connection::held_back::{HeldBack, OPEN_AGAIN, Refusal};
use crate::connection::session::Session;
use crate::error::{Failure, abandoned, no_sockets, unavailable};

/// The number of connections that are opened at once.
const OPENED_AT_ONCE: usize = 4;

/// The time that even a request that waits for nothing stands in line when the server refuses a further connection.
const REFUSED_LIMIT: Duration = Duration::from_millis(500);

/// The pause before a connection is tried to be opened again, once another one was closed for it.
const CLOSING_TIME: Duration = Duration::from_millis(5);

/// Lends connections, and opens another one when none is idle, up to a limit.
///
/// A connection whose state is in any doubt is not taken back but closed.
pub(crate) struct Pool {
    pub(crate) connector: Connector,
    pub(crate) deadlines: Deadlines,
    pub(crate) driven: PoolRuntimes,
    size: u32,
    permits: Arc<Semaphore>,
    /// Opening takes work, above all with TLS, and a thousand connections that are opened at once would
    /// hold up the heartbeats of others.
    open_permits: Arc<Semaphore>,
    idle: Mutex<Vec<Session>>,
    pub(crate) allowance: Arc<Allowance>,
    held_back: HeldBack,
}

/// Which runtimes the connections of a pool need.
#[derive(Clone)]
pub(crate) struct PoolRuntimes {
    /// Where they live. They die with it.
    pub(crate) runtime: Handle,
    /// Where a request goes on that nobody waits for any more, also when `runtime` has no turn.
    pub(crate) background: Handle,
}

impl PoolRuntimes {
    pub(crate) fn by(runtime: &Handle, background: &Handle) -> Self {
        Self {
            runtime: runtime.clone(),
            background: background.clone(),
        }
    }
}

/// A connection that is lent. Dropping it takes it back if it was said to be [reusable](Self::mark_reusable), and
/// closes it otherwise.
pub(crate) struct Lent {
    session: Option<Session>,
    mark_reusable: bool,
    /// True if it was in use before.
    pub(crate) used: bool,
    pool: Arc<Pool>,
    _permit: OwnedSemaphorePermit,
}

impl Pool {
    pub(crate) fn new(
        connector: Connector,
        deadlines: Deadlines,
        driven: PoolRuntimes,
        size: u32,
    ) -> Arc<Self> {
        let permits = usize::try_from(size).unwrap_or(Semaphore::MAX_PERMITS);
        let pool = Arc::new(Self {
            allowance: Arc::clone(&connector.allowance),
            connector,
            deadlines,
            driven,
            size,
            permits: Arc::new(Semaphore::new(permits.min(Semaphore::MAX_PERMITS))),
            open_permits: Arc::new(Semaphore::new(OPENED_AT_ONCE)),
            idle: Mutex::default(),
            held_back: HeldBack::default(),
        });
        pool.allowance.enter(&pool);
        pool
    }

    /// Lends a connection; an error when none comes back within `limit`. Where the server refuses a further one,
    /// those that are open are waited for, a while at least.
    pub(crate) async fn lend(self: &Arc<Self>, limit: Duration) -> Result<Lent> {
        let begun = Clock::Boot.now();
        let (mut ends, mut refusal) = (begun.plus(limit), None);
        loop {
            let Some(permit) = self.stand_in_line(ends).await else {
                return Err(refusal.unwrap_or_else(|| self.exhausted()));
            };
            let (session, used) = match self.take_idle() {
                Some(session) => (session, true),
                None => match self.open_unless_refused().await? {
                    Ok(opened) => opened,
                    Err(Refusal { error, may_open }) => {
                        ends = begun.plus(limit.max(REFUSED_LIMIT));
                        let error = refusal.insert(error);
                        if !Box::pin(self.make_room(permit, may_open, ends)).await {
                            return Err(error.clone());
                        }
                        continue;
                    }
                },
            };
            return Ok(Lent {
                session: Some(session),
                mark_reusable: false,
                used,
                pool: Arc::clone(self),
                _permit: permit,
            });
        }
    }

    async fn stand_in_line(&self, ends: Moment) -> Option<OwnedSemaphorePermit> {
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

    /// Waits until it makes sense to ask for a connection again, after the server has refused one; `false` when
    /// that would be too late.
    ///
    /// Where others of this pool are open, their number is what the server allows, so the permit is held back and
    /// the line is that for those. A pool without any has another one give one up, and so has one whose connections
    /// may all be locks. Nothing is closed unless another one may be opened for it.
    async fn make_room(
        self: &Arc<Self>,
        permit: OwnedSemaphorePermit,
        may_open: bool,
        ends: Moment,
    ) -> bool {
        if may_open && self.connector.lends_for_long && self.allowance.close_spare(self) {
            self.let_close().await;
            return Clock::Boot.now() < ends;
        }
        if self
            .held_back
            .hold_back(self.allowance.opened(self), self.size)
        {
            permit.forget();
            return true;
        }
        let left = ends.since(Clock::Boot.now());
        let room = self.allowance.ask_for_one(self, may_open);
        let answered = self.deadlines.timeout(left.min(OPEN_AGAIN), room).await;
        if answered.is_some() && self.idle.lock().is_empty() {
            self.let_close().await;
        }
        Clock::Boot.now() < ends
    }

    /// Gives the server time to notice that a connection was closed.
    async fn let_close(&self) {
        self.held_back.forget_refusal();
        self.deadlines.timeout(CLOSING_TIME, pending::<()>()).await;
    }

    /// Returns true if `to` can use a connection of this pool: one that lives where `to` or its background does, and is set up as
    /// those of `to` are.
    pub(crate) fn can_give(&self, session: &Session, to: &Self) -> bool {
        let lives_as_long = [&to.driven.runtime, &to.driven.background]
            .map(|runtime| runtime.id() == session.opened_on);
        self.connector.lends_for_long == to.connector.lends_for_long
            && lives_as_long.contains(&true)
    }

    /// Gives up one that is idle, and that `to` can use.
    pub(crate) fn give(&self, to: &Self) -> Option<Session> {
        let mut idle = self.idle.lock();
        let usable = |session: &Session| !session.is_stale() && self.can_give(session, to);
        let number = idle.iter().rposition(usable)?;
        Some(idle.remove(number))
    }

    /// Has a connection of another pool.
    pub(crate) fn take_in(&self, mut session: Session) {
        session.moves_to(self);
        self.idle.lock().push(session);
    }

    /// Closes one that is idle; `false` if there is none.
    pub(crate) fn close_idle(&self) -> bool {
        let closed = self.idle.lock().pop();
        closed.is_some()
    }

    /// Lends a connection that nobody else could use just now.
    pub(crate) fn lend_idle(self: &Arc<Self>) -> Option<Lent> {
        let permit = Arc::clone(&self.permits).try_acquire_owned().ok()?;
        Some(Lent {
            session: Some(self.take_idle()?),
            mark_reusable: false,
            used: true,
            pool: Arc::clone(self),
            _permit: permit,
        })
    }

    /// Closes what is idle: when one connection is dead, the others may be as well.
    pub(crate) fn forget_idle(&self) {
        let idle = std::mem::take(&mut *self.idle.lock());
        drop(idle);
    }

    fn take_idle(&self) -> Option<Session> {
        let mut idle = self.idle.lock();
        // The one that was used last is the least likely to be closed by now.
        let newest = idle.pop()?;
        if newest.is_stale() {
            idle.clear();
            return None;
        }
        Some(newest)
    }

    /// Opens a connection, or says what the server said a moment ago when it refused one.
    async fn open_unless_refused(self: &Arc<Self>) -> Result<Result<(Session, bool), Refusal>> {
        if let Some(refusal) = self.held_back.last_refusal() {
            return Ok(Err(refusal));
        }
        let refusal = match self.open().await {
            Ok(opened) => return Ok(Ok(opened)),
            Err(Failure::Refused(error)) => Refusal {
                error,
                may_open: true,
            },
            Err(Failure::UsedUp(error)) => Refusal {
                error,
                may_open: false,
            },
            Err(failure) => return Err(failure.into_error()),
        };
        self.held_back.note(refusal.clone());
        Ok(Err(refusal))
    }

    /// Opens a connection in a task of its own, on the runtime where it is to live; or else what came
    /// back meanwhile, and whether it was in use before. What nobody waits for any more when it is open
    /// is left for the next one.
    async fn open(self: &Arc<Self>) -> Result<(Session, bool), Failure> {
        let door = Arc::clone(&self.open_permits).acquire_owned().await;
        if let Some(left) = self.take_idle() {
            return Ok((left, true));
        }
        let (pool, (opened, opening)) = (Arc::clone(self), oneshot::channel());
        let task = self.driven.runtime.spawn(async move {
            let _door = door;
            let session = pool.connector.open(&pool.deadlines).await;
            let session = session.map(|session| session.counted(Opened::in_pool(&pool)));
            if let Err(Ok(unwanted)) = opened.send(session) {
                pool.idle.lock().push(unwanted);
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
    /// Says that nothing is open on it, so that the next one may have it.
    pub(crate) fn mark_reusable(&mut self) {
        self.mark_reusable = true;
    }

    /// Says that its server may not grant any more: neither it nor those that are idle beside it are lent again.
    pub(crate) fn demoted(&mut self) {
        self.mark_reusable = false;
        self.pool.allowance.forget_idle();
    }

    /// Says that nobody may have it any more.
    pub(crate) fn mark_broken(&mut self) {
        self.mark_reusable = false;
    }
}

impl Deref for Lent {
    type Target = Session;

    fn deref(&self) -> &Session {
        self.session
            .as_ref()
            .expect("it is there until it is dropped")
    }
}

impl DerefMut for Lent {
    fn deref_mut(&mut self) -> &mut Session {
        self.session
            .as_mut()
            .expect("it is there until it is dropped")
    }
}

impl Drop for Lent {
    fn drop(&mut self) {
        let session = self.session.take().filter(|_| self.mark_reusable);
        let unwanted = session.and_then(|session| self.pool.allowance.pass_on(session, &self.pool));
        if let Some(session) = unwanted {
            self.pool.idle.lock().push(session);
        }
    }
}

impl fmt::Debug for Pool {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Pool")
            .field("idle", &self.idle.lock().len())
            .field("size", &self.size)
            .finish_non_exhaustive()
    }
}
