//! Continues sessions over new connections after the loss of the last connection.
//!
//! Invariant: no hold counts on more than a server may have granted to its session.
//!
//! Why: with each connection a server sets the timeout of the session anew, by its own limits. The
//! new timeout counts from when the server receives the request, even if its answer is lost. So the
//! client first opens a short session with the same request at the same server. From then on no
//! hold counts on more than that session was granted.
//!
//! Breaks if: one address belongs to several members with different limits, and the answer is lost.
//! Then another member may have received the request.

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

/// The shortest and the longest pause between two rounds over all servers.
const PAUSE_MIN: Duration = Duration::from_millis(20);
const PAUSE_MAX: Duration = Duration::from_secs(1);

/// The largest number of sessions that are reattached at once.
const AT_ONCE: usize = 4;

/// The time for which a server that failed is tried last.
const LAST: Duration = Duration::from_secs(5);

/// The time that one attempt at one server may take.
const ATTEMPT_LIMIT: Duration = Duration::from_secs(3);

/// The time that the client waits for the end of the short session.
pub(crate) const CLOSING_LIMIT: Duration = Duration::from_millis(500);

/// The reattachment of a client's sessions.
pub(crate) struct Reattaching {
    pub(crate) connector: Arc<Connector>,
    /// Weak, since the records keep sessions open.
    registry: Weak<ClaimRegistry>,
    /// Limits the connections that a client needs in addition to its sessions.
    turns: Semaphore,
    /// When each server failed last.
    failed: Mutex<HashMap<String, Moment>>,
}

/// A guard that ends a session when its reattachment ends, also at the end of the runtime.
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
            // Keep neither handle during the wait: dropping the last handle closes the session.
            let Some(end) = link.upgrade().and_then(|link| link.end_of_connection()) else {
                return;
            };
            let state = end.await;
            let Some(link) = link.upgrade() else { return };
            link.broken();
            if state == SessionState::Expired {
                return;
            }
            let Some((connection, asked)) = self.reattach(&link, &session).await else {
                return;
            };
            link.connected(connection, asked);
            // Watches do not outlive their connection, so deletions may be missed. The limit has
            // all holds renewed.
            self.limit(&session, link.timeout());
        }
    }

    /// Returns all servers. Servers that failed lately come last.
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

    /// Opens a new connection for the session, and returns when it was requested; `None` once the
    /// session has ended.
    async fn reattach(
        &self,
        link: &SessionConnection,
        session: &Weak<Session>,
    ) -> Option<(Arc<Connection>, Moment)> {
        // By then no server has the session. Servers end a session at the next tick after its
        // timeout, and no tick is longer than half of that timeout.
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
                    Ok(Ok(reattached)) => return Some(reattached),
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
    ) -> Result<(Arc<Connection>, Moment), Failure> {
        let probe = self.connector.connect(server, link.asked, None).await?;
        let probe = probe.ready();
        let (given, closed) = (probe.timeout().min(link.asked), probe.end());
        drop(probe);
        self.limit(session, given);
        // Wait for the end: the server may allow no other connection from this address.
        let _state = tokio::time::timeout(CLOSING_LIMIT, closed).await;
        let info = Some(&link.session);
        let requested = Clock::Boot.now();
        let connection = self.connector.connect(server, link.asked, info).await?;
        // The driver forgets which state the session has seen, and this member may lag behind that
        // state.
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
        Ok((connection, requested))
    }
}
