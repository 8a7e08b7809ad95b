//! The sessions on one runtime, with a session for each ttl in use.

use std::collections::HashMap;
use std::ops::RangeInclusive;
use std::sync::{Arc, Weak};
use std::time::Duration;

use lock_core::backend::{Backoff, Clock, Deadlines, Moment, Mutex};
use lock_core::{ErrorKind, Result, TTL_RANGE};
use tokio::runtime::Handle;
use tokio::sync::{Mutex as FairMutex, watch};
use zookeeper_client::Error as ZooKeeperError;

use crate::claim::registry::ClaimRegistry;
use crate::claim::removal::remove_abandoned;
use crate::connection::connect::too_short;
use crate::connection::open::Connection;
use crate::error::{error_of, no_answer};
use crate::lock_nodes::LockNodeSweeper;
use crate::session::confirmed::heartbeat;
use crate::session::connection::{SessionConnection, SessionStatus};
use crate::session::reattach::{CLOSING_LIMIT, Reattaching};
use crate::session::requests::Session;

/// The time that opening a session may take.
pub(crate) const OPENING_LIMIT: Duration = Duration::from_secs(4);

/// The shortest session that the driver can keep alive.
const SHORTEST_TTL: Duration = Duration::from_secs(1);

/// The time that an unused session stays open.
const IDLE_LIMIT: Duration = Duration::from_secs(10);

/// The time for which open shorter sessions are preferred after a session could not be opened.
const REFUSED: Duration = Duration::from_secs(5);

/// The interval at which sessions are checked.
const ROUND: Duration = Duration::from_secs(1);

/// The options of new sessions.
#[derive(Clone)]
pub(crate) struct SessionOptions {
    pub(crate) reattaching: Arc<Reattaching>,
    pub(crate) registry: Arc<ClaimRegistry>,
    pub(crate) lock_nodes: Arc<LockNodeSweeper>,
    pub(crate) deadlines: Deadlines,
}

/// The sessions on one runtime. Opens sessions on demand, and closes unused sessions.
pub(crate) struct SessionPool {
    options: SessionOptions,
    runtime: Handle,
    sessions: Mutex<HashMap<Duration, Arc<TtlSession>>>,
}

/// The session for one ttl.
#[derive(Default)]
struct TtlSession {
    session: Mutex<Option<Arc<Session>>>,
    /// When opening the session failed last.
    refused: Mutex<Option<Moment>>,
    opening: Arc<FairMutex<()>>,
}

impl SessionOptions {
    /// Returns the timeout that a server grants to a session for `ttl`.
    async fn negotiated(&self, ttl: Duration) -> Result<Duration> {
        let ends = Clock::Boot.now().plus(CLOSING_LIMIT);
        let mut backoff = Backoff::new(Duration::from_millis(5), CLOSING_LIMIT / 5);
        loop {
            match self.connect(ttl).await {
                Ok(probe) => return Ok(probe.timeout()),
                // The server may allow only one more connection from this address, and may not yet
                // have closed the connection of the last probe.
                Err(error) if error.is_retryable() && Clock::Boot.now() < ends => {
                    tokio::time::sleep(backoff.next_pause()).await;
                }
                Err(error) => return Err(error),
            }
        }
    }

    /// Opens a session for `ttl`.
    async fn connect(&self, ttl: Duration) -> Result<Arc<Connection>> {
        let connector = &self.reattaching.connector;
        // Boxed: the driver's futures are large.
        let opening = Box::pin(connector.open(ttl));
        let opened = self.deadlines.timeout(OPENING_LIMIT, opening).await;
        opened.unwrap_or_else(|| Err(no_answer(OPENING_LIMIT).with_server(connector.address())))
    }
}

impl SessionPool {
    pub(crate) fn new(options: SessionOptions, runtime: Handle) -> Arc<Self> {
        Arc::new(Self {
            options,
            runtime,
            sessions: Mutex::default(),
        })
    }

    /// Returns the session for `ttl`, which includes the reserve.
    ///
    /// If the server allows no further connection from this address, returns the longest open
    /// session below `ttl` and above `least`. A session whose caller was dropped before it opened
    /// serves the next caller.
    pub(crate) async fn session(&self, ttl: Duration, least: Duration) -> Result<Arc<Session>> {
        let pooled = self.pooled(ttl);
        if let Some(session) = pooled.current() {
            return Ok(session);
        }
        if pooled.was_refused_lately()
            && let Some(session) = self.shorter(ttl, least)
        {
            return Ok(session);
        }
        match self.open(pooled, ttl).await {
            Err(error) if error.is_retryable() => self.shorter(ttl, least).ok_or(error),
            outcome => outcome,
        }
    }

    async fn open(&self, pooled: Arc<TtlSession>, ttl: Duration) -> Result<Arc<Session>> {
        // Wait outside the spawned task, so that a dropped caller leaves the queue.
        let turn = Arc::clone(&pooled.opening).lock_owned().await;
        if let Some(session) = pooled.current() {
            return Ok(session);
        }
        let options = self.options.clone();
        let opening = async move {
            let _one_at_a_time = turn;
            open(options, pooled, ttl).await
        };
        self.run(opening).await
    }

    /// Returns the longest open session below `ttl` and above `least`.
    pub(crate) fn shorter(&self, ttl: Duration, least: Duration) -> Option<Arc<Session>> {
        let sessions = self.sessions.lock();
        let mut shorter: Vec<_> = sessions
            .iter()
            .filter(|(length, _)| **length < ttl && **length > least)
            .collect();
        shorter.sort_unstable_by_key(|(length, _)| **length);
        shorter
            .iter()
            .rev()
            .find_map(|(_, pooled)| pooled.current())
    }

    /// Returns the shortest and the longest session that the server grants. Requests less and more
    /// than that to find both.
    pub(crate) async fn bounds(&self) -> Result<RangeInclusive<Duration>> {
        let options = self.options.clone();
        let asking = async move {
            // In sequence: the server may allow few connections from an address.
            let shortest = options.negotiated(SHORTEST_TTL).await?;
            let longest = options.negotiated(*TTL_RANGE.end()).await?;
            Ok(shortest.max(SHORTEST_TTL)..=longest)
        };
        self.run(Box::pin(asking)).await
    }

    /// Runs `work` to its end on the runtime of the sessions, even if the caller is dropped.
    async fn run<T: Send + 'static>(
        &self,
        work: impl Future<Output = Result<T>> + Send + 'static,
    ) -> Result<T> {
        self.runtime.spawn(work).await.unwrap_or_else(|source| {
            let message = "the runtime of the sessions has ended: connect on another one";
            Err(error_of(ErrorKind::Unavailable, message).with_source(source))
        })
    }

    fn pooled(&self, ttl: Duration) -> Arc<TtlSession> {
        let mut sessions = self.sessions.lock();
        if let Some(pooled) = sessions.get(&ttl) {
            return Arc::clone(pooled);
        }
        // Keep entries with a session, and entries with a second handle, for which a caller opens a
        // session.
        sessions.retain(|_, pooled| Arc::strong_count(pooled) > 1 || pooled.current().is_some());
        let pooled = Arc::<TtlSession>::default();
        sessions.insert(ttl, Arc::clone(&pooled));
        pooled
    }
}

impl TtlSession {
    fn current(&self) -> Option<Arc<Session>> {
        let session = self.session.lock();
        let session = session.as_ref().filter(|session| session.is_fit())?;
        session.touch();
        Some(Arc::clone(session))
    }

    fn was_refused_lately(&self) -> bool {
        let refused = *self.refused.lock();
        refused.is_some_and(|at| Clock::Boot.now().since(at) < REFUSED)
    }

    /// Removes `session`, if no later session has replaced it.
    fn forget(&self, session: &Session) {
        let mut current = self.session.lock();
        current.take_if(|current| std::ptr::eq(&**current, session));
    }
}

async fn open(
    options: SessionOptions,
    pooled: Arc<TtlSession>,
    ttl: Duration,
) -> Result<Arc<Session>> {
    let began = Clock::Boot.now();
    let connection = options.connect(ttl).await.inspect_err(|_refused| {
        *pooled.refused.lock() = Some(Clock::Boot.now());
    })?;
    if connection.timeout() > ttl {
        return Err(too_short(ttl, connection.timeout()));
    }
    let link = Arc::new(SessionConnection::new(connection, ttl, began));
    let reattaching = Arc::clone(&options.reattaching);
    let (states, weak_link) = (link.states(), Arc::downgrade(&link));
    let session = Arc::new(Session::new(link, reattaching.connector.has_user()));
    *pooled.session.lock() = Some(Arc::clone(&session));
    let weak = Arc::downgrade(&session);
    let keeper_runtime = Handle::current();
    let registry = Arc::downgrade(&options.registry);
    keeper_runtime.spawn(reattaching.keep_connected(weak_link, weak.clone()));
    keeper_runtime.spawn(send_heartbeats(weak.clone()));
    keeper_runtime.spawn(delete_abandoned_nodes(
        weak.clone(),
        registry.clone(),
        Arc::downgrade(&options.lock_nodes),
        options.deadlines,
    ));
    keeper_runtime.spawn(look_after(weak, Arc::downgrade(&pooled), registry, states));
    Ok(session)
}

/// Sends heartbeats until the session has ended or is dropped.
///
/// Why not the driver's heartbeats: the driver does not report when they were sent, and they are rare.
async fn send_heartbeats(session: Weak<Session>) {
    loop {
        let Some(pause) = session.upgrade().map(|it| heartbeat(it.link.timeout())) else {
            return;
        };
        Clock::Boot.sleep_until(Clock::Boot.now().plus(pause)).await;
        let Some(open) = session.upgrade().filter(|session| !session.has_ended()) else {
            return;
        };
        let Ok(connection) = open.link.current() else {
            // The reattaching task opens the next connection.
            continue;
        };
        // Keep no handle during the wait: dropping the last handle closes the session.
        let sent = Clock::Boot.now();
        let (asking, ended) = (connection.client().check_stat("/"), connection.end());
        drop((open, connection));
        let answer = tokio::select! {
            answer = asking => answer,
            _state = ended => continue,
        };
        // A refusal for lack of permission is an answer as well.
        if let Ok(_) | Err(ZooKeeperError::NoAuth) = answer {
            session.upgrade().inspect(|session| session.link.sign(sent));
        }
    }
}

/// Deletes the nodes of abandoned claims, as long as the session lives.
async fn delete_abandoned_nodes(
    session: Weak<Session>,
    registry: Weak<ClaimRegistry>,
    lock_nodes: Weak<LockNodeSweeper>,
    deadlines: Deadlines,
) {
    loop {
        let round = Clock::Boot.now().plus(ROUND);
        Clock::Boot.sleep_until(round).await;
        let (Some(session), Some(registry)) = (session.upgrade(), registry.upgrade()) else {
            return;
        };
        if session.has_ended() {
            return;
        }
        let gone = remove_abandoned(&registry, &session, &deadlines).await;
        let Some(lock_nodes) = lock_nodes.upgrade() else {
            return;
        };
        for record in gone {
            lock_nodes.left(record.lock, record.session);
        }
    }
}

/// Reports the end of a session to its claims. Closes a session that was unused for a while.
async fn look_after(
    session: Weak<Session>,
    pooled: Weak<TtlSession>,
    registry: Weak<ClaimRegistry>,
    mut states: watch::Receiver<SessionStatus>,
) {
    loop {
        let round = Clock::Boot.now().plus(ROUND);
        let ended = tokio::select! {
            _state = states.wait_for(|state| *state == SessionStatus::Ended) => true,
            () = Clock::Boot.sleep_until(round) => false,
        };
        let (Some(session), Some(registry)) = (session.upgrade(), registry.upgrade()) else {
            return;
        };
        if ended || session.has_ended() {
            pooled.upgrade().inspect(|pooled| pooled.forget(&session));
            registry.lose(&session);
            registry.leave_all_in(&session);
            return;
        }
        if registry.are_needed_in(&session) {
            session.touch();
        } else if session.is_retired() {
            // The session closes with its last handle, which deletes its remaining nodes.
            registry.leave_all_in(&session);
        }
        let idle = Clock::Boot.now().since(session.idle_since());
        if idle > IDLE_LIMIT || !session.is_fit() {
            pooled.upgrade().inspect(|pooled| pooled.forget(&session));
        }
    }
}
