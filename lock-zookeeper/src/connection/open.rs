//! One connection of a session: a client of the driver that ends with its connection.
//!
//! zookeeper-client 0.11 continues a session over a new connection by itself, and does not report a
//! shorter timeout that the server grants then. So this module stops the driver's task after the
//! loss of a connection, before the task asks to continue. [The session](crate::session::reattach)
//! uses a new client for each connection.

use std::future::poll_fn;
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::task::{Context, Poll};
use std::time::Duration;

use lock_core::backend::Mutex;
use spawns_core::{Spawn, Task};
use tokio::runtime::Handle;
use tokio::sync::watch;
use tokio::task::AbortHandle;
use zookeeper_client::{
    Client as ZooKeeper, Connector, Error as ZooKeeperError, OneshotWatcher, SessionState,
    StateWatcher, WatchedEvent,
};

use crate::connection::request_size::{RequestSize, RequestSizes};
use crate::error::{DriverResult, is_end_of_session, is_loss_of_connection};

/// The driver's task, which reads and writes.
type DriverTask = Pin<Box<dyn Future<Output = ()> + Send>>;

/// A connection, open or ended. Dropping the last handle of an open connection closes the session.
pub(crate) struct Connection {
    client: ZooKeeper,
    ended: watch::Receiver<Option<SessionState>>,
    task: AbortHandle,
    runtime: Handle,
    pub(crate) request_sizes: Arc<RequestSizes>,
    /// True once the end was counted against the requests that were under way.
    is_told: AtomicBool,
    /// Dropped after all watchers, which panic if they outlive the driver's task.
    _stopped: Arc<Stopped>,
}

/// The driver's task after the stop.
#[derive(Default)]
struct Stopped(Mutex<Option<DriverTask>>);

impl Connection {
    /// Connects to one server with `connector`.
    async fn open(
        connector: Connector,
        server: &str,
        request_sizes: &Arc<RequestSizes>,
    ) -> DriverResult<Arc<Self>> {
        let spawned = Spawned::default();
        // Boxed: the driver's futures are large.
        let client = spawned.catch(Box::pin(connector.connect(server))).await?;
        let driving = spawned.0.lock().take();
        let (end, ended) = watch::channel(None);
        let stopped = Arc::<Stopped>::default();
        // Made before the spawn: a runtime that has ended drops the guard, which stops the task.
        let guarded = Guarded {
            driving,
            states: client.state_watcher(),
            stopped: Arc::clone(&stopped),
            end,
        };
        let runtime = Handle::current();
        let task = runtime.spawn(guarded).abort_handle();
        Ok(Arc::new(Self {
            client,
            ended,
            task,
            runtime,
            request_sizes: Arc::clone(request_sizes),
            is_told: AtomicBool::new(false),
            _stopped: stopped,
        }))
    }

    pub(crate) fn client(&self) -> &ZooKeeper {
        &self.client
    }

    /// Returns the session timeout that the server has granted.
    pub(crate) fn timeout(&self) -> Duration {
        self.client.session_timeout()
    }

    pub(crate) fn has_ended(&self) -> bool {
        self.ended.borrow().is_some()
    }

    /// Waits for the end, without keeping the connection open. Resolves to the driver's last state.
    pub(crate) fn end(&self) -> impl Future<Output = SessionState> + Send + use<> {
        let mut ended = self.ended.clone();
        async move {
            match ended.wait_for(Option::is_some).await {
                Ok(state) => state.unwrap_or(SessionState::Disconnected),
                Err(_gone) => SessionState::Disconnected,
            }
        }
    }

    /// Waits for the answer to a request of this connection, at most until the connection ends.
    pub(crate) async fn answer<T>(
        &self,
        asking: impl Future<Output = DriverResult<T>>,
    ) -> DriverResult<T> {
        tokio::select! {
            biased;
            answer = asking => match answer {
                // The driver's error for a request that was under way when the task was stopped.
                Err(ZooKeeperError::UnexpectedError(_)) if self.has_ended() => {
                    Err(ZooKeeperError::ConnectionLoss)
                }
                answer => answer,
            },
            _state = self.end() => Err(ZooKeeperError::ConnectionLoss),
        }
    }

    /// Like [answer](Self::answer), and notes whether servers take requests of this size.
    pub(crate) async fn answer_to<T>(
        &self,
        request_size: RequestSize,
        asking: impl Future<Output = DriverResult<T>>,
    ) -> DriverResult<T> {
        let answer = self.answer(asking).await;
        match &answer {
            Err(error) if is_loss_of_connection(error) => {
                self.request_sizes.lost(request_size, &self.is_told);
            }
            Err(error) if is_end_of_session(error) => {}
            Ok(_) | Err(_) => self.request_sizes.answered(request_size),
        }
        answer
    }

    /// Closes the connection without ending the session.
    fn abandon(self: Arc<Self>) {
        self.task.abort();
        let runtime = self.runtime.clone();
        runtime.spawn(async move {
            // A client that is dropped before the end closes the session.
            let _state = self.end().await;
            drop(self);
        });
    }

    /// Binds `watcher` to its connection.
    pub(crate) fn watcher(self: &Arc<Self>, watcher: OneshotWatcher) -> Watcher {
        Watcher {
            watcher,
            connection: Arc::clone(self),
        }
    }
}

/// A connection that is not ready for use yet.
///
/// Dropping it closes a new session. A continued session stays open for the next attempt.
pub(crate) struct Unready {
    connection: Arc<Connection>,
    goes_on: bool,
}

impl Unready {
    /// Connects to one server with `connector`; `goes_on` is set if that continues a session.
    pub(crate) async fn open(
        connector: Connector,
        server: &str,
        goes_on: bool,
        request_sizes: &Arc<RequestSizes>,
    ) -> DriverResult<Self> {
        let connection = Connection::open(connector, server, request_sizes).await?;
        Ok(Self {
            connection,
            goes_on,
        })
    }

    /// Returns the connection, and marks it as ready.
    pub(crate) fn ready(mut self) -> Arc<Connection> {
        self.goes_on = false;
        Arc::clone(&self.connection)
    }

    pub(crate) fn get(&self) -> &Connection {
        &self.connection
    }
}

impl Drop for Unready {
    fn drop(&mut self) {
        if self.goes_on {
            Arc::clone(&self.connection).abandon();
        }
    }
}

/// A watch that is open as long as its connection.
pub(crate) struct Watcher {
    watcher: OneshotWatcher,
    connection: Arc<Connection>,
}

impl Watcher {
    /// Waits for the change; `None` if the connection ends first.
    pub(crate) async fn changed(self) -> Option<WatchedEvent> {
        let Self {
            watcher,
            connection,
        } = self;
        tokio::select! {
            event = watcher.changed() => Some(event),
            _state = connection.end() => None,
        }
    }
}

/// The task that the driver wanted to spawn.
#[derive(Default)]
struct Spawned(Mutex<Option<DriverTask>>);

impl Spawned {
    /// Runs `connecting`, and keeps the task that it spawns.
    async fn catch<T>(&self, connecting: impl Future<Output = T>) -> T {
        let mut connecting = pin!(connecting);
        poll_fn(|context| {
            let _scope = spawns_core::enter(self);
            connecting.as_mut().poll(context)
        })
        .await
    }
}

impl Spawn for Spawned {
    fn spawn(&self, task: Task) {
        let mut driving = self.0.lock();
        *driving = Some(Box::into_pin(task.future));
    }
}

/// The driver's task until it loses the connection.
///
/// In the poll that finds the loss, the driver begins to connect anew. It sends nothing until the
/// new connection is open, which takes a later poll.
struct Guarded {
    driving: Option<DriverTask>,
    states: StateWatcher,
    stopped: Arc<Stopped>,
    end: watch::Sender<Option<SessionState>>,
}

impl Guarded {
    fn stop(&mut self) {
        if let Some(driving) = self.driving.take() {
            *self.stopped.0.lock() = Some(driving);
            self.end.send_replace(Some(self.states.peek_state()));
        }
    }
}

impl Future for Guarded {
    type Output = ();

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<()> {
        let Some(driving) = &mut self.driving else {
            return Poll::Ready(());
        };
        let is_over = driving.as_mut().poll(context).is_ready();
        if !is_over && self.states.peek_state() == SessionState::SyncConnected {
            return Poll::Pending;
        }
        self.stop();
        Poll::Ready(())
    }
}

impl Drop for Guarded {
    fn drop(&mut self) {
        self.stop();
    }
}
