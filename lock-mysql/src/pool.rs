//! Connections that are driven by one runtime.

use std::fmt;
use std::ops::{Deref, DerefMut};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use lock_core::{Error, ErrorKind, Patrol, Result};
use tokio::runtime::Handle;
use tokio::sync::{OwnedSemaphorePermit, Semaphore, oneshot};

use crate::error::{BACKEND, abandoned, no_sockets};
use crate::session::Session;
use crate::wire::Wire;

/// How many connections are opened at once.
const OPENED_AT_ONCE: usize = 4;

/// Lends connections, and opens another one when none is idle, up to a limit.
///
/// A connection whose state is in any doubt is not taken back but closed.
pub(crate) struct Pool {
    wire: Wire,
    pub(crate) patrol: Patrol,
    pub(crate) driven: Driven,
    size: u32,
    permits: Arc<Semaphore>,
    /// Opening takes work, above all with TLS, and a thousand connections that are opened at once would
    /// hold up the heartbeats of others.
    doors: Arc<Semaphore>,
    idle: Mutex<Vec<Session>>,
}

/// Which runtimes the connections of a pool need.
#[derive(Clone)]
pub(crate) struct Driven {
    /// Where they live. They die with it.
    pub(crate) runtime: Handle,
    /// Where a request goes on that nobody waits for any more, also when `runtime` has no turn.
    pub(crate) background: Handle,
}

impl Driven {
    pub(crate) fn by(runtime: &Handle, background: &Handle) -> Self {
        Self {
            runtime: runtime.clone(),
            background: background.clone(),
        }
    }
}

/// A connection that is lent. Dropping it takes it back if it was said to be [clean](Self::clean), and
/// closes it otherwise.
pub(crate) struct Lent {
    session: Option<Session>,
    clean: bool,
    /// Whether it was in use before.
    pub(crate) used: bool,
    pool: Arc<Pool>,
    _permit: OwnedSemaphorePermit,
}

impl Pool {
    pub(crate) fn new(wire: Wire, patrol: Patrol, driven: Driven, size: u32) -> Arc<Self> {
        let permits = usize::try_from(size).unwrap_or(Semaphore::MAX_PERMITS);
        Arc::new(Self {
            wire,
            patrol,
            driven,
            size,
            permits: Arc::new(Semaphore::new(permits.min(Semaphore::MAX_PERMITS))),
            doors: Arc::new(Semaphore::new(OPENED_AT_ONCE)),
            idle: Mutex::default(),
        })
    }

    /// Lends a connection; an error when none comes back within `limit`.
    pub(crate) async fn lend(self: &Arc<Self>, limit: Duration) -> Result<Lent> {
        let permit = match Arc::clone(&self.permits).try_acquire_owned() {
            Ok(permit) => permit,
            Err(_) => {
                let permit = Arc::clone(&self.permits).acquire_owned();
                match self.patrol.within(limit, permit).await {
                    Some(Ok(permit)) => permit,
                    Some(Err(_)) | None => return Err(self.exhausted()),
                }
            }
        };
        let (session, used) = match self.take_idle() {
            Some(session) => (session, true),
            None => self.open().await?,
        };
        Ok(Lent {
            session: Some(session),
            clean: false,
            used,
            pool: Arc::clone(self),
            _permit: permit,
        })
    }

    /// Lends a connection that nobody else could use just now.
    pub(crate) fn lend_idle(self: &Arc<Self>) -> Option<Lent> {
        let permit = Arc::clone(&self.permits).try_acquire_owned().ok()?;
        Some(Lent {
            session: Some(self.take_idle()?),
            clean: false,
            used: true,
            pool: Arc::clone(self),
            _permit: permit,
        })
    }

    /// Closes what is idle: when one connection is dead, the others may be as well.
    pub(crate) fn forget_idle(&self) {
        let idle = std::mem::take(&mut *self.lock_idle());
        drop(idle);
    }

    fn take_idle(&self) -> Option<Session> {
        let mut idle = self.lock_idle();
        // The one that was used last is the least likely to be closed by now.
        let newest = idle.pop()?;
        if newest.is_stale() {
            idle.clear();
            return None;
        }
        Some(newest)
    }

    /// Opens a connection in a task of its own, on the runtime where it is to live; or else what came
    /// back meanwhile, and whether it was in use before. What nobody waits for any more when it is open
    /// is left for the next one.
    async fn open(self: &Arc<Self>) -> Result<(Session, bool)> {
        let door = Arc::clone(&self.doors).acquire_owned().await;
        if let Some(left) = self.take_idle() {
            return Ok((left, true));
        }
        let (pool, (opened, opening)) = (Arc::clone(self), oneshot::channel());
        let task = self.driven.runtime.spawn(async move {
            let _door = door;
            let session = pool.wire.open(&pool.patrol).await;
            if let Err(Ok(unwanted)) = opened.send(session) {
                pool.lock_idle().push(unwanted);
            }
        });
        match opening.await {
            Ok(session) => Ok((session?, false)),
            Err(_) => match task.await {
                Err(ended) if ended.is_panic() => Err(no_sockets()),
                Ok(()) | Err(_) => Err(abandoned()),
            },
        }
    }

    fn exhausted(&self) -> Error {
        Error::new(
            ErrorKind::Unavailable,
            format!(
                "all {} connections of this client are in use: with hold = \"row\" each held lock and each waited key needs one, with hold = \"lease\" each key whose row another transaction keeps locked; raise `connections`, or hold fewer at once",
                self.size
            ),
        )
        .with_backend(BACKEND)
    }

    fn lock_idle(&self) -> MutexGuard<'_, Vec<Session>> {
        self.idle.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Lent {
    /// Says that nothing is open on it, so that the next one may have it.
    pub(crate) fn clean(&mut self) {
        self.clean = true;
    }

    /// Says that nobody may have it any more.
    pub(crate) fn spoil(&mut self) {
        self.clean = false;
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
        if let Some(session) = self.session.take().filter(|_| self.clean) {
            self.pool.lock_idle().push(session);
        }
    }
}

impl fmt::Debug for Pool {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Pool")
            .field("idle", &self.lock_idle().len())
            .field("size", &self.size)
            .finish_non_exhaustive()
    }
}
