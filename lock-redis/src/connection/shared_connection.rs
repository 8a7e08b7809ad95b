//! A shared connection that is reopened after it breaks.

use std::fmt;
use std::future::Future;
use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use lock_core::backend::{
    BatchSize, Clock, Deadlines, Detached, KeeperRuntime, LastReply, Reconnecting, ReplyStats,
};
use lock_core::{Error, Result};
use redis::{AsyncConnectionConfig, RedisError, RedisResult, Value};
use tokio::runtime::Handle;

use crate::commands::script::Call;
use crate::connection::batch::BATCH_MAX;
use crate::connection::connect::Connector;
use crate::connection::multiplexed::{Connection, Tracking};
use crate::error::{no_answer, translate};

/// Maximum time to open a connection.
const CONNECT_LIMIT: Duration = Duration::from_secs(2);

/// Maximum time for the answer of a silent connection to a probe.
const PROBE_LIMIT: Duration = Duration::from_secs(2);

/// Number of requests that may wait for the driver. Above it, requests would be sent in any order,
/// and a clean-up might overtake its take. No memory is allocated in advance.
pub(crate) const ROOM: usize = 1 << 30;

/// A connection to the server, opened at first use and reopened after it broke.
///
/// Many requests share it, and the server answers them in order. So a clean-up on it cannot
/// overtake its take.
pub(crate) struct SharedConnection {
    options: ConnectOptions,
    open: Reconnecting<Connection>,
    replies: ReplyStats,
    /// Maximum number of calls in a batch. A proxy on the way may allow fewer than the server.
    batch_max: BatchSize,
}

/// The options of new connections.
#[derive(Clone)]
pub(crate) struct ConnectOptions {
    pub(crate) connector: Arc<Connector>,
    pub(crate) options: AsyncConnectionConfig,
    /// The keys whose changes the server pushes (`CLIENT TRACKING`).
    pub(crate) tracking: Tracking,
    /// The call that is sent first on every new connection.
    pub(crate) greeting: Option<Call>,
    /// The runtime that probes silent connections.
    pub(crate) keeper_runtime: KeeperRuntime,
    pub(crate) deadlines: Deadlines,
}

impl SharedConnection {
    pub(crate) fn new(mut options: ConnectOptions, runtime: Handle) -> Arc<Self> {
        // Each call has its own limit, which the driver's would cut short.
        options.options = options
            .options
            .set_connection_timeout(None)
            .set_response_timeout(None)
            .set_pipeline_buffer_size(ROOM);
        Arc::new(Self {
            options,
            open: Reconnecting::new(runtime),
            replies: ReplyStats::new(),
            batch_max: BatchSize::new(BATCH_MAX),
        })
    }

    /// Returns the open connection, if there is one.
    pub(crate) fn current(&self) -> Option<Arc<Connection>> {
        self.open.current()
    }

    /// Returns the open connection, or opens one.
    pub(crate) async fn connection(self: &Arc<Self>) -> Result<Arc<Connection>> {
        let open = || {
            let shared = Arc::clone(self);
            async move { shared.connect().await }
        };
        self.open.get(open).await
    }

    /// Returns the open connection, or opens one within `limit`.
    pub(crate) async fn connection_within(
        self: &Arc<Self>,
        limit: Duration,
    ) -> Result<Arc<Connection>> {
        let deadlines = &self.options.deadlines;
        let connection = deadlines.timeout(limit, self.connection()).await;
        connection.unwrap_or_else(|| Err(self.no_answer(limit)))
    }

    /// Returns the error of a request that was not answered within `limit`.
    pub(crate) fn no_answer(&self, limit: Duration) -> Error {
        self.options.connector.at(no_answer(limit))
    }

    /// Sends one call on `connection` and waits at most `limit` for its answer.
    ///
    /// If the caller is dropped before the driver gets to the request, it is not sent.
    pub(crate) async fn call(
        self: &Arc<Self>,
        connection: &Arc<Connection>,
        call: &Call,
        limit: Duration,
    ) -> Result<Value> {
        self.ask(connection, connection.send(call), limit).await
    }

    /// Like [`call`](Self::call), but the call is sent even if the caller is dropped.
    pub(crate) async fn deliver(
        self: &Arc<Self>,
        connection: &Arc<Connection>,
        call: &Call,
        limit: Duration,
    ) -> Result<Value> {
        let (to, call) = (Arc::clone(connection), call.clone());
        // The delivery ends with its connection at the latest.
        let delivery = Detached::new(self.open.runtime(), async move { to.send(&call).await });
        self.ask(connection, delivery, limit).await
    }

    /// Sends `PING`, and waits at most `limit` for the answer.
    pub(crate) async fn ping(self: &Arc<Self>, limit: Duration) -> Result<()> {
        let connection = self.connection().await?;
        let (ping, mut redis) = (redis::cmd("PING"), connection.channel.redis.clone());
        let asking = ping.query_async::<Value>(&mut redis);
        self.ask(&connection, asking, limit).await.map(drop)
    }

    /// Waits at most `limit` for the answer to a request on `connection`.
    pub(crate) async fn ask(
        self: &Arc<Self>,
        connection: &Arc<Connection>,
        asking: impl Future<Output = RedisResult<Value>>,
        limit: Duration,
    ) -> Result<Value> {
        let sent = Clock::Boot.now();
        let asking = pin!(asking);
        match self.options.deadlines.timeout(limit, asking).await {
            Some(Ok(answer)) => {
                self.replies.note(sent);
                Ok(answer)
            }
            Some(Err(error)) => Err(self.failed(connection, error)),
            None => {
                self.probe(Arc::clone(connection));
                Err(self.no_answer(limit))
            }
        }
    }

    /// Returns the runtime that drives the connection.
    pub(crate) fn runtime(&self) -> &Handle {
        self.open.runtime()
    }

    /// Returns time and latency of the server's last answer.
    pub(crate) fn replies(&self) -> LastReply {
        self.replies.last()
    }

    /// Translates `error`, and forgets the connection if the error shows that it is unusable.
    pub(crate) fn failed(&self, connection: &Arc<Connection>, error: RedisError) -> Error {
        if error.is_unrecoverable_error() || error.is_io_error() || is_demoted(&error) {
            self.forget(connection);
        }
        self.options.connector.at(translate(error))
    }

    /// Has the next request open a new connection, unless one was opened already.
    pub(crate) fn forget(&self, connection: &Arc<Connection>) {
        self.open.forget(connection);
    }

    /// Forgets and aborts a connection that does not answer. Its requests must not arrive after a
    /// request on the next connection.
    pub(crate) fn give_up(&self, connection: &Arc<Connection>) {
        self.forget(connection);
        connection.abort();
    }

    /// Probes a connection that missed a limit, and gives it up if the probe fails, too. Clean-ups
    /// depend on the connection of their take, so it is not replaced at the first silence.
    pub(crate) fn probe(self: &Arc<Self>, connection: Arc<Connection>) {
        if connection.probed.swap(true, Ordering::Relaxed) {
            return;
        }
        let shared = Arc::clone(self);
        let probing = async move {
            let (ping, mut redis) = (redis::cmd("PING"), connection.channel.redis.clone());
            let asking = ping.query_async::<Value>(&mut redis);
            match shared.options.deadlines.timeout(PROBE_LIMIT, asking).await {
                Some(Ok(_)) => connection.probed.store(false, Ordering::Relaxed),
                Some(Err(_)) | None => {
                    tracing::warn!("redis: connection timed out on PING, reconnecting");
                    shared.give_up(&connection);
                }
            }
        };
        if let Err(error) = self.options.keeper_runtime.spawn(probing) {
            tracing::debug!(%error, "redis: probing a silent connection failed");
        }
    }

    async fn connect(&self) -> Result<Connection> {
        let options = &self.options;
        let opening = async {
            let (redis, driver) = options.connector.open(&options.options).await?;
            let mut connection =
                Connection::new(redis, driver, self.open.runtime(), &self.batch_max);
            let sent = Clock::Boot.now();
            let greeting = connection.greet(options.greeting.as_ref(), options.tracking);
            greeting.await?;
            self.replies.note(sent);
            Ok(connection)
        };
        // Boxed because the driver's futures are large.
        match options
            .deadlines
            .timeout(CONNECT_LIMIT, Box::pin(opening))
            .await
        {
            Some(opened) => opened,
            None => Err(options.connector.not_opened(CONNECT_LIMIT)),
        }
        .map_err(|error| options.connector.at(error).with_operation("connect"))
    }
}

/// Returns true if a master became a replica, which keeps its connections but rejects writes.
fn is_demoted(error: &RedisError) -> bool {
    error.code() == Some("READONLY")
}

impl fmt::Debug for SharedConnection {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SharedConnection")
            .field("address", &self.options.connector)
            .field("replies", &self.replies())
            .finish_non_exhaustive()
    }
}
