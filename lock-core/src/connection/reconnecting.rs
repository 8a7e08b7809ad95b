//! A shared connection that is reopened after it breaks.

use std::fmt;
use std::future::Future;
use std::sync::Arc;

use tokio::runtime::Handle;
use tokio::sync::watch;

use crate::Result;
use crate::mutex::Mutex;

/// A shared connection that is opened at first use and reopened after a [`forget`](Self::forget).
///
/// ```
/// use lock_core::backend::Reconnecting;
/// use tokio::runtime::Handle;
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> lock_core::Result<()> {
/// let shared = Reconnecting::new(Handle::current());
/// let connection = shared.get(|| async { Ok("connected") }).await?;
/// assert!(shared.forget(&connection));
/// assert!(shared.is_closed());
/// # Ok(())
/// # }
/// ```
pub struct Reconnecting<C> {
    /// The connection's runtime, with which it ends.
    runtime: Handle,
    state: Arc<Mutex<ConnectionState<C>>>,
}

enum ConnectionState<C> {
    Closed,
    /// One task opens the connection; all callers wait for its result.
    Opening(Opened<C>),
    Open(Arc<C>),
}

type Opened<C> = watch::Receiver<Option<Result<Arc<C>>>>;

impl<C: Send + Sync + 'static> Reconnecting<C> {
    /// Creates a connection on `runtime` that is not yet open.
    pub fn new(runtime: Handle) -> Self {
        Self {
            runtime,
            state: Arc::new(Mutex::new(ConnectionState::Closed)),
        }
    }

    /// Returns the connection's runtime.
    pub fn runtime(&self) -> &Handle {
        &self.runtime
    }

    /// Returns the open connection, if there is one.
    pub fn current(&self) -> Option<Arc<C>> {
        match &*self.state.lock() {
            ConnectionState::Open(connection) => Some(Arc::clone(connection)),
            ConnectionState::Closed | ConnectionState::Opening(_) => None,
        }
    }

    /// Returns true if the connection is neither open nor being opened.
    pub fn is_closed(&self) -> bool {
        matches!(&*self.state.lock(), ConnectionState::Closed)
    }

    /// Returns the open connection, or opens it by `open`.
    ///
    /// A separate task opens it, so a caller that is dropped or not polled neither stops the
    /// opening nor delays other callers.
    ///
    /// # Errors
    ///
    /// The error of `open`, for all callers that waited for it. The next call opens again.
    ///
    /// # Cancel safety
    ///
    /// Dropping the future does not stop the opening.
    pub async fn get<F>(&self, open: impl Fn() -> F) -> Result<Arc<C>>
    where
        F: Future<Output = Result<C>> + Send + 'static,
    {
        loop {
            let mut outcome = match self.join(&open) {
                Ok(open) => return Ok(open),
                Err(outcome) => outcome,
            };
            // The sender was dropped with its runtime. Yield to the tasks that may be dropping it,
            // then open again.
            if let Ok(outcome) = outcome.wait_for(Option::is_some).await
                && let Some(opened) = &*outcome
            {
                return opened.clone();
            }
            tokio::task::yield_now().await;
        }
    }

    /// Returns the open connection, or else the pending opening.
    fn join<F>(&self, open: impl Fn() -> F) -> std::result::Result<Arc<C>, Opened<C>>
    where
        F: Future<Output = Result<C>> + Send + 'static,
    {
        let mut state = self.state.lock();
        match &*state {
            ConnectionState::Open(connection) => return Ok(Arc::clone(connection)),
            ConnectionState::Opening(outcome) if outcome.has_changed().is_ok() => {
                return Err(outcome.clone());
            }
            ConnectionState::Opening(_) | ConnectionState::Closed => {}
        }
        let (sender, outcome) = watch::channel(None);
        let (opening, opened_state) = (open(), Arc::clone(&self.state));
        self.runtime.spawn(async move {
            let opened = opening.await.map(Arc::new);
            *opened_state.lock() = match &opened {
                Ok(connection) => ConnectionState::Open(Arc::clone(connection)),
                Err(_) => ConnectionState::Closed,
            };
            // The waiting callers may be gone.
            let _unread = sender.send(Some(opened));
        });
        *state = ConnectionState::Opening(outcome.clone());
        Err(outcome)
    }

    /// Closes `connection`, so that the next caller opens another; false if that was done before.
    pub fn forget(&self, connection: &Arc<C>) -> bool {
        let mut state = self.state.lock();
        let is_open =
            matches!(&*state, ConnectionState::Open(open) if Arc::ptr_eq(open, connection));
        if is_open {
            *state = ConnectionState::Closed;
        }
        is_open
    }
}

impl<C> fmt::Debug for Reconnecting<C> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match &*self.state.lock() {
            ConnectionState::Closed => "Closed",
            ConnectionState::Opening(_) => "Opening",
            ConnectionState::Open(_) => "Open",
        })
    }
}
