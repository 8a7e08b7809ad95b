//! A connection that many share, and that is opened again when it breaks.

use std::fmt;
use std::future::Future;
use std::sync::Arc;

use tokio::runtime::Handle;
use tokio::sync::watch;

use crate::Result;
use crate::mutex::Mutex;

/// A connection that is opened when it is first needed, shared by all who need it, and opened again
/// once it was
/// [forgotten](Self::forget).
pub struct Reconnecting<C> {
    /// Where the connection lives. It dies with its runtime.
    runtime: Handle,
    state: Arc<Mutex<ConnectionState<C>>>,
}

enum ConnectionState<C> {
    Closed,
    /// One task opens it; all who need it wait for the same outcome.
    Opening(Opened<C>),
    Open(Arc<C>),
}

type Opened<C> = watch::Receiver<Option<Result<Arc<C>>>>;

impl<C: Send + Sync + 'static> Reconnecting<C> {
    /// Makes one that lives on `runtime`, and is not open yet.
    pub fn new(runtime: Handle) -> Self {
        Self {
            runtime,
            state: Arc::new(Mutex::new(ConnectionState::Closed)),
        }
    }

    /// Returns where the connection lives.
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

    /// Returns true if no connection is open, nor being opened.
    pub fn is_closed(&self) -> bool {
        matches!(&*self.state.lock(), ConnectionState::Closed)
    }

    /// Returns the open connection, which `open` opens now if there is none.
    ///
    /// It is opened in a task of its own: a caller that gives up waiting for it, or is not polled
    /// for a while, neither stops it nor holds the others up.
    ///
    /// # Errors
    ///
    /// The error of `open`, for all who waited for it. The next call opens anew.
    ///
    /// # Cancel safety
    ///
    /// Dropping the future leaves the opening to the next one.
    pub async fn get<F>(&self, open: impl Fn() -> F) -> Result<Arc<C>>
    where
        F: Future<Output = Result<C>> + Send + 'static,
    {
        loop {
            let mut outcome = match self.join(&open) {
                Ok(open) => return Ok(open),
                Err(outcome) => outcome,
            };
            // Without an outcome, the opener's runtime was dropped: the next turn opens anew, after
            // those that may be dropping it.
            if let Ok(outcome) = outcome.wait_for(Option::is_some).await
                && let Some(opened) = &*outcome
            {
                return opened.clone();
            }
            tokio::task::yield_now().await;
        }
    }

    /// Returns what is open, or else what is being opened.
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
            // Those who waited may have gone.
            let _unheard = sender.send(Some(opened));
        });
        *state = ConnectionState::Opening(outcome.clone());
        Err(outcome)
    }

    /// Has the next one who needs it open another connection than this; `false` if that has been
    /// done.
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
