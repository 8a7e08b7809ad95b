//! The present connection of a session, and the timeout that its server grants.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use tokio::sync::watch;
use zookeeper_client::{Error as ZooKeeperError, SessionInfo};

use crate::connection::open::{Connection, End};
use crate::connection::request_size::RequestSizes;
use crate::error::DriverResult;
use lock_core::backend::Mutex;

/// A server that dies may not have reported the last heartbeats to the leader: those of half a
/// tick, which is at most a quarter of the shortest session, and at most this with any tick up to 4
/// s.
const UNTOLD_MAX: Duration = Duration::from_secs(2);

/// The state of a session.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum State {
    Connected,
    /// It has no connection, and may continue over another one.
    Broken,
    Ended,
}

/// The connection of one session.
#[derive(Debug)]
pub(crate) struct SessionConnection {
    session: SessionInfo,
    asked: Duration,
    request_sizes: Arc<RequestSizes>,
    connection: Mutex<Option<Arc<Connection>>>,
    /// In milliseconds.
    timeout: AtomicU64,
    state: watch::Sender<State>,
}

impl SessionConnection {
    /// Makes the connection of a session that `asked` for this timeout.
    pub(crate) fn new(connection: Arc<Connection>, asked: Duration) -> Self {
        Self {
            session: connection.client().session().clone(),
            asked,
            request_sizes: Arc::clone(connection.request_sizes()),
            timeout: AtomicU64::new(in_milliseconds(connection.timeout())),
            connection: Mutex::new(Some(connection)),
            state: watch::Sender::new(State::Connected),
        }
    }

    pub(crate) fn session(&self) -> &SessionInfo {
        &self.session
    }

    pub(crate) fn asked(&self) -> Duration {
        self.asked
    }

    /// Returns the sizes that requests may have.
    pub(crate) fn request_sizes(&self) -> &RequestSizes {
        &self.request_sizes
    }

    /// Returns how long the session lives without a sign of life, as its present server has said.
    pub(crate) fn timeout(&self) -> Duration {
        Duration::from_millis(self.timeout.load(Ordering::SeqCst)).min(self.asked)
    }

    /// Returns the connection for requests.
    pub(crate) fn current(&self) -> DriverResult<Arc<Connection>> {
        match &*self.connection.lock() {
            Some(connection) if !connection.has_ended() => Ok(Arc::clone(connection)),
            Some(_) | None if self.has_ended() => Err(ZooKeeperError::SessionExpired),
            Some(_) | None => Err(ZooKeeperError::ConnectionLoss),
        }
    }

    /// Waits until there is a connection, or the session has ended.
    pub(crate) async fn settled(&self) {
        let mut states = self.state.subscribe();
        loop {
            // Copied, since `current` looks at it, too.
            let state = *states.borrow_and_update();
            let is_settled = match state {
                State::Connected => self.current().is_ok(),
                State::Broken => false,
                State::Ended => true,
            };
            // The end of a connection is noted soon, which is a change.
            if is_settled || states.changed().await.is_err() {
                return;
            }
        }
    }

    pub(crate) fn has_ended(&self) -> bool {
        *self.state.borrow() == State::Ended
    }

    /// Returns the changes of the state. The receiver does not keep the connection open.
    pub(crate) fn states(&self) -> watch::Receiver<State> {
        self.state.subscribe()
    }

    pub(crate) fn end_of_connection(&self) -> Option<End> {
        self.connection
            .lock()
            .as_ref()
            .map(|connection| connection.end())
    }

    /// Continues over `connection`.
    pub(crate) fn connected(&self, connection: Arc<Connection>) {
        let timeout = in_milliseconds(connection.timeout());
        self.timeout.store(timeout, Ordering::SeqCst);
        *self.connection.lock() = Some(connection);
        self.state.send_replace(State::Connected);
    }

    pub(crate) fn broken(&self) {
        *self.connection.lock() = None;
        self.state.send_replace(State::Broken);
    }

    pub(crate) fn end(&self) {
        *self.connection.lock() = None;
        self.state.send_replace(State::Ended);
    }
}

fn in_milliseconds(duration: Duration) -> u64 {
    u64::try_from(duration.as_millis()).unwrap_or(u64::MAX)
}

/// Returns the part of a session's timeout that counts for a hold with this lock delay.
pub(crate) fn counted(timeout: Duration, lock_delay: Duration) -> Duration {
    // Without the lock delay: the rest is as long as a session, since no ttl is shorter than one.
    let shortest = timeout.saturating_sub(lock_delay);
    timeout - UNTOLD_MAX.min(shortest / 4)
}
