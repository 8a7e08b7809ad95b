//! Where a client's background work runs.

use std::fmt;
use std::future::Future;
use std::sync::Mutex;

use tokio::runtime::{Builder, Handle};
use tokio::task::JoinHandle;

use crate::sync::locked;
use crate::{Error, ErrorKind, Result};

/// Where renewals, clean-ups and connections in the background run.
///
/// - On the process's keeper thread ([`thread`](Self::thread)), which has a runtime of its own: an
///   application that blocks its workers or drops its runtime stops neither renewals nor releases.
/// - On the runtime of whoever acquires ([`caller`](Self::caller)): no extra thread, but a blocked
///   runtime renews nothing (the holder is told in time), and what is dropped together with its
///   runtime is freed by the ttl.
#[derive(Clone)]
pub struct KeeperHome(Home);

#[derive(Clone)]
enum Home {
    Thread(Handle),
    Caller,
}

/// Which [`KeeperHome`] a client is configured to have. Default: the keeper thread.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum KeeperPlace {
    /// [`KeeperHome::thread`].
    #[default]
    Thread,
    /// [`KeeperHome::caller`].
    Caller,
}

impl KeeperHome {
    /// The home at `place`.
    ///
    /// # Errors
    ///
    /// [`ErrorKind::Backend`] when the operating system gives no keeper thread.
    pub fn at(place: KeeperPlace) -> Result<Self> {
        match place {
            KeeperPlace::Thread => Self::thread(),
            KeeperPlace::Caller => Ok(Self::caller()),
        }
    }

    /// The process's keeper thread; the first call starts it.
    ///
    /// # Errors
    ///
    /// [`ErrorKind::Backend`] when the operating system gives no thread.
    pub fn thread() -> Result<Self> {
        static KEEPER_THREAD: Mutex<Option<Handle>> = Mutex::new(None);

        let mut started = locked(&KEEPER_THREAD);
        if let Some(handle) = &*started {
            return Ok(Self(Home::Thread(handle.clone())));
        }
        let handle = start_thread().map_err(|source| {
            Error::new(ErrorKind::Backend, "cannot start the keeper thread").with_source(source)
        })?;
        *started = Some(handle.clone());
        Ok(Self(Home::Thread(handle)))
    }

    /// The runtime of whoever acquires.
    pub fn caller() -> Self {
        Self(Home::Caller)
    }

    /// Runs `future` there and returns its handle; dropping the handle does not stop it.
    ///
    /// # Errors
    ///
    /// [`ErrorKind::Config`] at the caller's home when the caller is in no runtime.
    pub fn spawn<F>(&self, future: F) -> Result<JoinHandle<F::Output>>
    where
        F: Future + Send + 'static,
        F::Output: Send + 'static,
    {
        Ok(self.handle()?.spawn(future))
    }

    /// The runtime it stands for now.
    ///
    /// # Errors
    ///
    /// [`ErrorKind::Config`] at the caller's home when the caller is in no runtime.
    pub fn handle(&self) -> Result<Handle> {
        match &self.0 {
            Home::Thread(handle) => Ok(handle.clone()),
            Home::Caller => Handle::try_current().map_err(|source| {
                Error::new(
                    ErrorKind::Config,
                    "locks are acquired inside a Tokio runtime: call this from one",
                )
                .with_source(source)
            }),
        }
    }

    /// Whether it goes on when the runtime of a caller is blocked or gone.
    pub(crate) fn outlives_callers(&self) -> bool {
        matches!(self.0, Home::Thread(_))
    }
}

impl fmt::Debug for KeeperHome {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self.0 {
            Home::Thread(_) => "KeeperHome::thread",
            Home::Caller => "KeeperHome::caller",
        })
    }
}

/// Starts a thread that drives a runtime for the rest of the process's life.
fn start_thread() -> std::io::Result<Handle> {
    let runtime = Builder::new_current_thread().enable_all().build()?;
    let handle = runtime.handle().clone();
    std::thread::Builder::new()
        .name("polylock-keeper".into())
        .spawn(move || runtime.block_on(std::future::pending::<()>()))?;
    Ok(handle)
}
