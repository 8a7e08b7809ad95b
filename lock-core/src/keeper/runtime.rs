//! The runtime of a client's background work.

use std::fmt;
use std::future::Future;

use tokio::runtime::Handle;
use tokio::task::JoinHandle;

use crate::keeper::runtime_thread::RuntimeThread;
use crate::mutex::Mutex;
use crate::{Error, ErrorKind, Result};

/// The runtime of renewals, clean-ups and background connections.
///
/// - The process's keeper thread ([`thread`](Self::thread)), with its own runtime: an application
///   that blocks its workers or drops its runtime stops neither renewals nor releases.
/// - The runtime of the acquiring caller ([`caller`](Self::caller)): no extra thread. While that
///   runtime is blocked, nothing is renewed, and a holder still learns of its loss in time. Holds
///   dropped together with their runtime are freed by the ttl. A waiter on a runtime that is not
///   driven may block other waiters of its client.
///
/// ```
/// use lock_core::KeeperMode;
/// use lock_core::backend::KeeperRuntime;
///
/// # fn main() -> lock_core::Result<()> {
/// let keeper = KeeperRuntime::at(KeeperMode::Thread)?;
/// keeper.spawn(async { println!("on the keeper thread") })?;
/// # Ok(())
/// # }
/// ```
#[derive(Clone)]
pub struct KeeperRuntime(Home);

#[derive(Clone)]
enum Home {
    Thread(RuntimeThread),
    Caller,
}

/// The configured [`KeeperRuntime`] of a client. Default: the keeper thread.
///
/// ```
/// assert_eq!(lock_core::KeeperMode::default(), lock_core::KeeperMode::Thread);
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum KeeperMode {
    /// [`KeeperRuntime::thread`].
    #[default]
    Thread,
    /// [`KeeperRuntime::caller`].
    Caller,
}

impl KeeperRuntime {
    /// Returns the runtime of `mode`.
    ///
    /// # Errors
    ///
    /// [`ErrorKind::Backend`] if the operating system cannot start the keeper thread.
    pub fn at(mode: KeeperMode) -> Result<Self> {
        match mode {
            KeeperMode::Thread => Self::thread(),
            KeeperMode::Caller => Ok(Self::caller()),
        }
    }

    /// Returns the process's keeper thread; the first call starts it.
    ///
    /// A forked process has none of its parent's threads. It gets its own keeper thread for clients
    /// that it connects itself, and cannot take locks with its parent's clients.
    ///
    /// # Errors
    ///
    /// [`ErrorKind::Backend`] if the operating system cannot start the thread.
    pub fn thread() -> Result<Self> {
        static KEEPER_THREAD: Mutex<Option<RuntimeThread>> = Mutex::new(None);

        let thread = RuntimeThread::of_process(&KEEPER_THREAD, "polylock-keeper");
        let thread = thread.map_err(|source| {
            Error::new(ErrorKind::Backend, "cannot start the keeper thread").with_source(source)
        })?;
        Ok(Self(Home::Thread(thread)))
    }

    /// Returns the runtime of the acquiring caller.
    pub fn caller() -> Self {
        Self(Home::Caller)
    }

    /// Spawns `future` on this runtime. Dropping the join handle does not stop it.
    ///
    /// # Errors
    ///
    /// [`ErrorKind::Config`] with the caller's runtime if there is none, and with the keeper thread
    /// in a process forked since.
    pub fn spawn<F>(&self, future: F) -> Result<JoinHandle<F::Output>>
    where
        F: Future + Send + 'static,
        F::Output: Send + 'static,
    {
        Ok(self.handle()?.spawn(future))
    }

    /// Returns the handle of this runtime.
    ///
    /// # Errors
    ///
    /// [`ErrorKind::Config`] with the caller's runtime if there is none, and with the keeper thread
    /// in a process forked since.
    pub fn handle(&self) -> Result<Handle> {
        match &self.0 {
            Home::Thread(thread) => thread.handle().cloned().ok_or_else(|| {
                Error::new(
                    ErrorKind::Config,
                    "this client was connected before its process forked, and renews nothing in the new process: connect again there",
                )
            }),
            Home::Caller => Handle::try_current().map_err(|source| {
                Error::new(
                    ErrorKind::Config,
                    "no Tokio runtime is running: acquire locks inside one",
                )
                .with_source(source)
            }),
        }
    }

    /// Returns true if this runtime keeps running while a caller's runtime is blocked or gone.
    pub(crate) fn outlives_callers(&self) -> bool {
        matches!(self.0, Home::Thread(_))
    }
}

impl fmt::Debug for KeeperRuntime {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self.0 {
            Home::Thread(_) => "KeeperRuntime::thread",
            Home::Caller => "KeeperRuntime::caller",
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_forked_process_is_told_that_nothing_is_renewed() {
        let KeeperRuntime(Home::Thread(thread)) = KeeperRuntime::thread().unwrap() else {
            panic!("not a thread");
        };
        assert!(KeeperRuntime(Home::Thread(thread.clone())).handle().is_ok());
        let forked = Home::Thread(thread.after_fork());
        let error = KeeperRuntime(forked).handle().unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Config);
        assert!(error.to_string().contains("forked"), "{error}");
    }
}
