//! A connection that is opened again when it breaks.

use std::fmt;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use lock_core::{Clock, Error, ErrorKind, KeeperHome, Patrol, Result};
use redis::aio::MultiplexedConnection;
use redis::{AsyncConnectionConfig, RedisError, Value};

use crate::error::{BACKEND, no_answer, translate};
use crate::script::Call;

/// How long opening a connection may take.
const CONNECT_LIMIT: Duration = Duration::from_secs(2);

/// How long a silent connection is given before it counts as dead.
const PROBE_LIMIT: Duration = Duration::from_secs(2);

/// One connection to the server: opened at the first use, and again after it broke.
///
/// Many requests share it at once, and the server answers them in the order they were sent. That is
/// what lets a clean-up travel behind the take that it cleans up.
pub(crate) struct Link {
    client: redis::Client,
    options: AsyncConnectionConfig,
    /// What is sent first on every new connection.
    greeting: Greeting,
    place: Place,
    home: KeeperHome,
    patrol: Patrol,
    current: Mutex<Option<Connection>>,
    connecting: tokio::sync::Mutex<()>,
    opened: AtomicU64,
    /// In microseconds.
    latency: AtomicU64,
}

/// What is sent first on every new connection.
pub(crate) enum Greeting {
    Script(Call),
    Command(redis::Cmd),
}

/// Where a connection lives. It dies with its runtime.
#[derive(Clone, Copy, PartialEq)]
pub(crate) enum Place {
    /// On the runtime of whoever opens it: fast for them.
    Opener,
    /// At the client's home: alive when the application is blocked or gone.
    Home,
}

/// A handle of the connection; one generation a time it was opened.
#[derive(Clone)]
pub(crate) struct Connection {
    pub(crate) redis: MultiplexedConnection,
    generation: u64,
    probed: Arc<AtomicBool>,
}

impl Link {
    pub(crate) fn new(
        client: redis::Client,
        options: AsyncConnectionConfig,
        greeting: Greeting,
        place: Place,
        home: KeeperHome,
        patrol: Patrol,
    ) -> Arc<Self> {
        Arc::new(Self {
            client,
            // Each call has its own limit; the driver's would cut across it.
            options: options
                .set_connection_timeout(None)
                .set_response_timeout(None),
            greeting,
            place,
            home,
            patrol,
            current: Mutex::new(None),
            connecting: tokio::sync::Mutex::new(()),
            opened: AtomicU64::new(0),
            latency: AtomicU64::new(0),
        })
    }

    /// The open connection, if there is one.
    pub(crate) fn current(&self) -> Option<Connection> {
        self.lock_current().clone()
    }

    /// The open connection, opened now if there is none.
    pub(crate) async fn connection(self: &Arc<Self>) -> Result<Connection> {
        if let Some(connection) = self.current() {
            return Ok(connection);
        }
        let _only_one = self.connecting.lock().await;
        if let Some(connection) = self.current() {
            return Ok(connection);
        }
        let redis = match self.place {
            Place::Opener => self.open().await?,
            Place::Home => {
                let link = Arc::clone(self);
                let opening = self.home.spawn(async move { link.open().await })?;
                opening.await.map_err(|source| {
                    Error::new(ErrorKind::Closed, "the keeper's runtime is shutting down")
                        .with_backend(BACKEND)
                        .with_source(source)
                })??
            }
        };
        let connection = Connection {
            redis,
            generation: self.opened.fetch_add(1, Ordering::Relaxed),
            probed: Arc::default(),
        };
        *self.lock_current() = Some(connection.clone());
        Ok(connection)
    }

    /// Sends one call on `connection` and waits at most `limit` for its answer.
    pub(crate) async fn call(
        self: &Arc<Self>,
        connection: &mut Connection,
        call: &Call,
        limit: Duration,
    ) -> Result<Value> {
        let sent = Clock::Boot.now();
        match self
            .patrol
            .within(limit, call.send(&mut connection.redis))
            .await
        {
            Some(Ok(answer)) => {
                self.note_latency(Clock::Boot.now().since(sent));
                Ok(answer)
            }
            Some(Err(error)) => Err(self.failed(connection, error)),
            None => {
                self.probe(connection.clone());
                Err(no_answer(limit))
            }
        }
    }

    /// How long the last answer took.
    pub(crate) fn latency(&self) -> Duration {
        Duration::from_micros(self.latency.load(Ordering::Relaxed))
    }

    fn note_latency(&self, latency: Duration) {
        let microseconds = u64::try_from(latency.as_micros()).unwrap_or(u64::MAX);
        self.latency.store(microseconds, Ordering::Relaxed);
    }

    /// Notes what an error says about the connection, and translates it.
    pub(crate) fn failed(&self, connection: &Connection, error: RedisError) -> Error {
        if error.is_unrecoverable_error() || error.is_io_error() || is_demoted(&error) {
            self.forget(connection);
        }
        translate(error)
    }

    /// Lets the next user open a new connection, unless somebody has already.
    pub(crate) fn forget(&self, connection: &Connection) {
        let mut current = self.lock_current();
        if current
            .as_ref()
            .is_some_and(|open| open.generation == connection.generation)
        {
            *current = None;
        }
    }

    /// Asks a connection that did not answer in time once more, with patience, and forgets it if it
    /// stays silent. Its clean-ups have to travel on it, so it is not given up lightly.
    pub(crate) fn probe(self: &Arc<Self>, mut connection: Connection) {
        if connection.probed.swap(true, Ordering::Relaxed) {
            return;
        }
        let link = Arc::clone(self);
        let probing = async move {
            let ping = redis::cmd("PING");
            let asking = ping.query_async::<Value>(&mut connection.redis);
            match link.patrol.within(PROBE_LIMIT, asking).await {
                Some(Ok(_)) => connection.probed.store(false, Ordering::Relaxed),
                Some(Err(_)) | None => {
                    tracing::warn!("a redis connection stays silent and is replaced");
                    link.forget(&connection);
                }
            }
        };
        if let Err(error) = self.home.spawn(probing) {
            tracing::debug!(%error, "a silent redis connection cannot be probed");
        }
    }

    async fn open(&self) -> Result<MultiplexedConnection> {
        let opening = async {
            let mut connection = self
                .client
                .get_multiplexed_async_connection_with_config(&self.options)
                .await?;
            let sent = Clock::Boot.now();
            match &self.greeting {
                Greeting::Script(call) => call.send(&mut connection).await?,
                Greeting::Command(command) => command.query_async(&mut connection).await?,
            };
            self.note_latency(Clock::Boot.now().since(sent));
            Ok(connection)
        };
        match self.patrol.within(CONNECT_LIMIT, opening).await {
            Some(opened) => opened.map_err(translate),
            None => Err(no_answer(CONNECT_LIMIT)),
        }
        .map_err(|error| error.with_operation("connect"))
    }

    fn lock_current(&self) -> std::sync::MutexGuard<'_, Option<Connection>> {
        self.current.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A master that became a replica keeps its connections, but takes no more writes.
fn is_demoted(error: &RedisError) -> bool {
    error.code() == Some("READONLY")
}

impl fmt::Debug for Link {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Link")
            .field(
                "address",
                &self.client.get_connection_info().addr().to_string(),
            )
            .field("opened", &self.opened)
            .finish_non_exhaustive()
    }
}
