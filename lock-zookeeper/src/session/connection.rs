//! The present connection of a session, and the timeout that its server grants.

use std::sync::Arc;
use std::time::Duration;

use lock_core::backend::{Moment, Mutex};
use tokio::sync::watch;
use zookeeper_client::{Error as ZooKeeperError, SessionInfo, SessionState, Stat};

use crate::connection::open::{Connection, Watcher};
use crate::connection::request_size::RequestSizes;
use crate::error::DriverResult;
use crate::session::confirmed::{HEARTBEAT_MAX, LATELY, SignsOfLife, heartbeat};

/// The largest part of a timeout that holds do not count on.
///
/// A server that dies may not have reported the requests of its last half tick to the leader. Half
/// a tick is at most a quarter of the shortest session, and at most this long if a tick is at most
/// 4 s.
const UNTOLD_MAX: Duration = Duration::from_secs(2);

/// The state of a session.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum SessionStatus {
    Connected,
    /// The connection is lost, and the session may continue over another connection.
    Broken,
    Ended,
}

/// The connection of one session.
pub(crate) struct SessionConnection {
    pub(crate) session: SessionInfo,
    /// The timeout that the client asked for.
    pub(crate) asked: Duration,
    pub(crate) request_sizes: Arc<RequestSizes>,
    connection: Mutex<Option<Arc<Connection>>>,
    /// The timeout that the present server has granted.
    timeout: Mutex<Duration>,
    state: watch::Sender<SessionStatus>,
    signs: SignsOfLife,
}

impl SessionConnection {
    /// Makes the first connection of a session for which the client `asked` for this timeout, after
    /// `began`.
    pub(crate) fn new(connection: Arc<Connection>, asked: Duration, began: Moment) -> Self {
        Self {
            session: connection.client().session().clone(),
            asked,
            request_sizes: Arc::clone(&connection.request_sizes),
            timeout: Mutex::new(connection.timeout()),
            connection: Mutex::new(Some(connection)),
            state: watch::Sender::new(SessionStatus::Connected),
            signs: SignsOfLife::new(began),
        }
    }

    /// Returns the timeout that the present server grants, at most the requested timeout.
    pub(crate) fn timeout(&self) -> Duration {
        self.asked.min(*self.timeout.lock())
    }

    /// Returns the connection for requests.
    pub(crate) fn current(&self) -> DriverResult<Arc<Connection>> {
        match &*self.connection.lock() {
            Some(connection) if !connection.has_ended() => Ok(Arc::clone(connection)),
            Some(_) | None if self.has_ended() => Err(ZooKeeperError::SessionExpired),
            Some(_) | None => Err(ZooKeeperError::ConnectionLoss),
        }
    }

    /// Reads the state of the node at `path`, if the node is there, and watches it.
    pub(crate) async fn stat_and_watch(&self, path: &str) -> DriverResult<(Option<Stat>, Watcher)> {
        let connection = self.current()?;
        let asking = connection.client().check_and_watch_stat(path);
        let (stat, watcher) = connection.answer(asking).await?;
        Ok((stat, connection.watcher(watcher)))
    }

    /// Waits until there is a connection, or the session has ended.
    pub(crate) async fn settled(&self) {
        let mut states = self.state.subscribe();
        loop {
            // Copied, since `current` borrows the state, too.
            let state = *states.borrow_and_update();
            let is_settled = match state {
                SessionStatus::Connected => self.current().is_ok(),
                SessionStatus::Broken => false,
                SessionStatus::Ended => true,
            };
            // The reattaching task soon notes the end of a connection, which changes the state.
            if is_settled || states.changed().await.is_err() {
                return;
            }
        }
    }

    pub(crate) fn has_ended(&self) -> bool {
        *self.state.borrow() == SessionStatus::Ended
    }

    /// Returns a receiver of the state, which does not keep the connection open.
    pub(crate) fn states(&self) -> watch::Receiver<SessionStatus> {
        self.state.subscribe()
    }

    /// Returns a future of the end of the present connection. It does not keep the connection open.
    pub(crate) fn end_of_connection(&self) -> Option<impl Future<Output = SessionState> + use<>> {
        let connection = self.connection.lock();
        connection.as_ref().map(|connection| connection.end())
    }

    /// Notes an answered request that was sent at `sent`.
    pub(crate) fn sign(&self, sent: Moment) {
        self.signs.note(sent, heartbeat(self.timeout()) / 2);
    }

    /// Returns from when a hold with this reserve counts, if a request sent at `sent` confirmed it.
    pub(crate) fn counts_from(&self, sent: Moment, reserve: Duration) -> Moment {
        let timeout = self.timeout();
        self.signs
            .counts_from(sent, timeout - counted(timeout, reserve))
    }

    /// Continues the session over `connection`, which was requested at `asked`.
    pub(crate) fn connected(&self, connection: Arc<Connection>, asked: Moment) {
        self.signs.reconnected(asked);
        *self.timeout.lock() = connection.timeout();
        *self.connection.lock() = Some(connection);
        self.state.send_replace(SessionStatus::Connected);
    }

    pub(crate) fn broken(&self) {
        *self.connection.lock() = None;
        self.state.send_replace(SessionStatus::Broken);
    }

    pub(crate) fn end(&self) {
        *self.connection.lock() = None;
        self.state.send_replace(SessionStatus::Ended);
    }
}

/// Returns the part of a session's timeout that counts for a hold with this reserve.
pub(crate) fn counted(timeout: Duration, reserve: Duration) -> Duration {
    // The shortest session is at most the timeout without the reserve: no ttl is shorter than a
    // session.
    let shortest = timeout.saturating_sub(reserve);
    timeout - UNTOLD_MAX.min(shortest / 4)
}

/// Returns the longest minimum hold in a session with this timeout.
pub(crate) fn longest_minimum(timeout: Duration) -> Duration {
    counted(timeout, Duration::ZERO).saturating_sub(LATELY + HEARTBEAT_MAX)
}

/// Returns the shortest timeout of a session that lasts for a minimum hold.
pub(crate) fn lasting(minimum: Duration) -> Duration {
    match minimum + LATELY + HEARTBEAT_MAX {
        _ if minimum.is_zero() => Duration::ZERO,
        time => time + UNTOLD_MAX.min(time / 3 + Duration::from_nanos(1)),
    }
}
