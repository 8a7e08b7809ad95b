//! A connection that is opened again when it breaks.

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

/// The time that opening a connection may take.
const CONNECT_LIMIT: Duration = Duration::from_secs(2);

/// The time that a silent connection is given before it counts as dead.
const PROBE_LIMIT: Duration = Duration::from_secs(2);

/// The number of requests that may wait for the driver to send them. With fewer, those that do not
/// find a place are sent in any order, and a clean-up might overtake the take that it cleans up.
/// Nothing is set aside for them.
pub(crate) const ROOM: usize = 1 << 30;

/// One connection to the server: opened at the first use, and again after it broke.
///
/// Many requests share it at once, and the server answers them in the order they were sent. That is
/// what lets a clean-up travel behind the take that it cleans up.
pub(crate) struct SharedConnection {
    options: ConnectOptions,
    open: Reconnecting<Connection>,
    replies: ReplyStats,
    /// The number of calls that may travel together. A proxy on the way may allow fewer than a
    /// server.
    batch_max: BatchSize,
}

/// The options with which a connection is opened.
#[derive(Clone)]
pub(crate) struct ConnectOptions {
    pub(crate) connector: Arc<Connector>,
    pub(crate) options: AsyncConnectionConfig,
    /// The keys of whose changes the connection is told (`CLIENT TRACKING`).
    pub(crate) tracking: Tracking,
    /// The call that is sent first on every new connection.
    pub(crate) greeting: Option<Call>,
    /// Where a silent connection is asked for a sign of life.
    pub(crate) keeper_runtime: KeeperRuntime,
    pub(crate) deadlines: Deadlines,
}

impl SharedConnection {
    pub(crate) fn new(mut options: ConnectOptions, runtime: Handle) -> Arc<Self> {
        // Each call has its own limit; the driver's would cut across it.
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

    /// The open connection, if there is one.
    pub(crate) fn current(&self) -> Option<Arc<Connection>> {
        self.open.current()
    }

    /// The open connection, opened now if there is none.
    pub(crate) async fn connection(self: &Arc<Self>) -> Result<Arc<Connection>> {
        let open = || {
            let shared = Arc::clone(self);
            async move { shared.connect().await }
        };
        self.open.get(open).await
    }

    /// The open connection, opened within `limit` if there is none.
    pub(crate) async fn connection_within(
        self: &Arc<Self>,
        limit: Duration,
    ) -> Result<Arc<Connection>> {
        match self
            .options
            .deadlines
            .timeout(limit, self.connection())
            .await
        {
            Some(connection) => connection,
            None => Err(self.no_answer(limit)),
        }
    }

    /// The server did not answer in time.
    pub(crate) fn no_answer(&self, limit: Duration) -> Error {
        self.options.connector.at(no_answer(limit))
    }

    /// Sends one call on `connection` and waits at most `limit` for its answer. The driver sends
    /// nothing any more for callers who have gone by the time it gets to their request.
    pub(crate) async fn call(
        self: &Arc<Self>,
        connection: &Arc<Connection>,
        call: &Call,
        limit: Duration,
    ) -> Result<Value> {
        self.ask(connection, connection.send(call), limit).await
    }

    /// Like [`call`](Self::call), but the call is sent also when its caller goes before.
    pub(crate) async fn deliver(
        self: &Arc<Self>,
        connection: &Arc<Connection>,
        call: &Call,
        limit: Duration,
    ) -> Result<Value> {
        let (to, call) = (Arc::clone(connection), call.clone());
        // It ends with its connection at the latest.
        let delivery = Detached::new(self.open.runtime(), async move { to.send(&call).await });
        self.ask(connection, delivery, limit).await
    }

    async fn ask(
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

    /// Returns what is known of the server's last answer.
    pub(crate) fn replies(&self) -> LastReply {
        self.replies.last()
    }

    /// Notes what an error says about the connection, and translates it.
    pub(crate) fn failed(&self, connection: &Arc<Connection>, error: RedisError) -> Error {
        if error.is_unrecoverable_error() || error.is_io_error() || is_demoted(&error) {
            self.forget(connection);
        }
        self.options.connector.at(translate(error))
    }

    /// Lets the next user open a new connection, unless that has been done.
    pub(crate) fn forget(&self, connection: &Arc<Connection>) {
        self.open.forget(connection);
    }

    /// Forgets a connection that does not answer. What was sent on it must not arrive when
    /// something else has been asked on the next one.
    pub(crate) fn give_up(&self, connection: &Arc<Connection>) {
        self.forget(connection);
        connection.abort();
    }

    /// Asks a connection that did not answer in time once more, with patience, and forgets it if it
    /// stays silent. Its clean-ups have to travel on it, so it is not given up lightly.
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
                    tracing::warn!("a redis connection stays silent and is replaced");
                    shared.give_up(&connection);
                }
            }
        };
        if let Err(error) = self.options.keeper_runtime.spawn(probing) {
            tracing::debug!(%error, "a silent redis connection cannot be probed");
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
        // The driver's futures are large.
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

/// A master that became a replica keeps its connections, but takes no more writes.
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
