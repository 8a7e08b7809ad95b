//! Continues a session over a new connection after the last one was lost.
//!
//! With each connection a server decides anew how long the session lives, by its own limits. That
//! counts from when it receives the request, even if its answer never arrives. So before the client
//! asks a server to continue a session, a short session of its own finds out what the server grants
//! for the same request, and no hold counts on more from then on. Both go to the same server. Only
//! if one address stands for several members with different limits, and the answer is lost, another
//! member may have received the request.

use std::collections::HashMap;
use std::sync::{Arc, Weak};
use std::time::Duration;

use lock_core::backend::{Backoff, Clock, Moment, Mutex};
use tokio::sync::Semaphore;
use zookeeper_client::{Error as ZooKeeperError, SessionState};

use crate::claim::registry::ClaimRegistry;
use crate::connection::connect::{Connector, Failure};
use crate::connection::open::Connection;
use crate::session::connection::SessionConnection;
use crate::session::requests::Session;

/// Pauses between attempts to reach any server.
const PAUSE_MIN: Duration = Duration::from_millis(20);
const PAUSE_MAX: Duration = Duration::from_secs(1);

/// The largest number of sessions that are reattached at once.
const AT_ONCE: usize = 4;

/// The time for which a failed server is tried last.
const LAST: Duration = Duration::from_secs(5);

/// The time that one attempt at one server may take.
const ATTEMPT_LIMIT: Duration = Duration::from_secs(3);

/// The time to wait for the end of the short session.
pub(crate) const CLOSING_LIMIT: Duration = Duration::from_millis(500);

/// The reattachment of a client's sessions.
pub(crate) struct Reattaching {
    pub(crate) connector: Arc<Connector>,
    /// The records keep sessions open.
    registry: Weak<ClaimRegistry>,
    /// Limits the connections that a client needs in addition to its sessions.
    turns: Semaphore,
    /// When servers failed last.
    failed: Mutex<HashMap<String, Moment>>,
}

/// Ends a session when its reattachment ends, also by its runtime.
struct Ending(Weak<SessionConnection>);

impl Drop for Ending {
    fn drop(&mut self) {
        if let Some(link) = self.0.upgrade() {
            link.end();
        }
    }
}

impl Reattaching {
    pub(crate) fn new(connector: Arc<Connector>, registry: Weak<ClaimRegistry>) -> Self {
        Self {
            connector,
            registry,
            turns: Semaphore::new(AT_ONCE),
            failed: Mutex::default(),
        }
    }

    /// Continues a session over new connections, until it ends or is dropped.
    pub(crate) async fn keep_connected(
        self: Arc<Self>,
        link: Weak<SessionConnection>,
        session: Weak<Session>,
    ) {
        let _ending = Ending(Weak::clone(&link));
        loop {
            // Neither handle may be kept during the wait: dropping the last one closes the session.
            let Some(end) = link.upgrade().and_then(|link| link.end_of_connection()) else {
                return;
            };
            let state = end.await;
            let Some(link) = link.upgrade() else { return };
            link.broken();
            if state == SessionState::Expired {
                return;
            }
            let Some(connection) = self.reattach(&link, &session).await else {
                return;
            };
            link.connected(connection);
            // Watches of the lost connection reported nothing, so all holds are renewed.
            self.limit(&session, link.timeout());
        }
    }

    /// Returns all servers, with those that failed lately last.
    fn servers(&self) -> Vec<&str> {
        let now = Clock::Boot.now();
        let failed = self.failed.lock();
        let has_failed = |server: &&str| {
            let at = failed.get(*server);
            at.is_some_and(|at| now.since(*at) < LAST)
        };
        let mut servers = self.connector.servers();
        servers.sort_by_key(has_failed);
        servers
    }

    /// Limits all claims of the session to `given` from now on.
    fn limit(&self, session: &Weak<Session>, given: Duration) {
        if let (Some(session), Some(registry)) = (session.upgrade(), self.registry.upgrade()) {
            registry.limit(&session, Clock::Boot.now(), given);
        }
    }

    /// Opens a new connection for the session; `None` once it has ended.
    async fn reattach(
        &self,
        link: &SessionConnection,
        session: &Weak<Session>,
    ) -> Option<Arc<Connection>> {
        // No server has the session then. Servers end sessions at the next tick after their
        // timeout, and no tick is longer than half of that.
        let ends = Clock::Boot.now().plus(link.timeout() * 3 / 2);
        let mut backoff = Backoff::new(PAUSE_MIN, PAUSE_MAX);
        loop {
            for server in self.servers() {
                let attempt = async {
                    let _one_of_few = self.turns.acquire().await;
                    let attempt = Box::pin(self.attempt(server, link, session));
                    tokio::time::timeout(ATTEMPT_LIMIT, attempt).await
                };
                match attempt.await {
                    Ok(Ok(connection)) => return Some(connection),
                    Ok(Err(Failure::Driver(ZooKeeperError::SessionExpired))) => return None,
                    Ok(Err(Failure::Driver(error))) => {
                        tracing::debug!(server, %error, "zookeeper: reconnecting a session failed, trying the next server");
                    }
                    Ok(Err(Failure::Setting(error))) => {
                        tracing::warn!(%error, "zookeeper: the settings of a session's connection failed, trying again");
                    }
                    Err(_) => {
                        tracing::debug!(
                            server,
                            "zookeeper: reconnecting a session timed out, trying the next server"
                        );
                    }
                }
                let now = Clock::Boot.now();
                self.failed.lock().insert(server.to_owned(), now);
            }
            let now = Clock::Boot.now();
            if now >= ends {
                return None;
            }
            Clock::Boot
                .sleep_until(now.plus(backoff.next_pause()))
                .await;
        }
    }

    async fn attempt(
        &self,
        server: &str,
        link: &SessionConnection,
        session: &Weak<Session>,
    ) -> Result<Arc<Connection>, Failure> {
        let probe = self.connector.connect(server, link.asked, None).await?;
        let probe = probe.ready();
        let (given, closed) = (probe.timeout().min(link.asked), probe.end());
        drop(probe);
        self.limit(session, given);
        // The server may allow no other connection from this address.
        let _state = tokio::time::timeout(CLOSING_LIMIT, closed).await;
        let info = Some(&link.session);
        let connection = self.connector.connect(server, link.asked, info).await?;
        // The driver forgets which state the session has seen, and another member may be behind it.
        let asked = connection.get();
        asked.answer(asked.client().sync("/")).await?;
        let connection = connection.ready();
        if connection.timeout() < link.timeout() {
            tracing::info!(
                server,
                timeout = ?connection.timeout(),
                "zookeeper: the server grants the session a shorter timeout than before"
            );
        }
        Ok(connection)
    }
}
