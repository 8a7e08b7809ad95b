//! Where a client's background work runs.

use std::fmt;
use std::future::Future;

use tokio::runtime::{Builder, Handle};
use tokio::task::JoinHandle;

use crate::mutex::Mutex;
use crate::{Error, ErrorKind, Result};

/// Where renewals, clean-ups and connections in the background run.
///
/// - On the process's keeper thread ([`thread`](Self::thread)), which has a runtime of its own: an
///   application that blocks its workers or drops its runtime stops neither renewals nor releases.
/// - On the runtime of the caller that acquires ([`caller`](Self::caller)): no extra thread, but a
///   blocked runtime renews nothing (the holder is told in time), what is dropped together with its
///   runtime is freed by the ttl, and a waiter on a runtime that is not driven may keep others of
///   its client waiting.
#[derive(Clone)]
pub struct KeeperRuntime(Home);

#[derive(Clone)]
enum Home {
    Thread(KeeperThread),
    Caller,
}

/// The keeper thread, and the process that it runs in.
#[derive(Clone)]
struct KeeperThread {
    handle: Handle,
    process: u32,
}

/// Which [`KeeperRuntime`] a client is configured to have. Default: the keeper thread.
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
    /// The runtime of `mode`.
    ///
    /// # Errors
    ///
    /// [`ErrorKind::Backend`] when the operating system gives no keeper thread.
    pub fn at(place: KeeperMode) -> Result<Self> {
        match place {
            KeeperMode::Thread => Self::thread(),
            KeeperMode::Caller => Ok(Self::caller()),
        }
    }

    /// The process's keeper thread; the first call starts it.
    ///
    /// A forked process has none of its parent's threads, so it gets a keeper thread of its own,
    /// for clients that it connects itself. With those of its parent it can take no lock.
    ///
    /// # Errors
    ///
    /// [`ErrorKind::Backend`] when the operating system gives no thread.
    pub fn thread() -> Result<Self> {
        static KEEPER_THREAD: Mutex<Option<KeeperThread>> = Mutex::new(None);

        let mut started = KEEPER_THREAD.lock();
        if let Some(thread) = started.as_ref().filter(|thread| thread.is_ours()) {
            return Ok(Self(Home::Thread(thread.clone())));
        }
        let handle = start_thread().map_err(|source| {
            Error::new(ErrorKind::Backend, "cannot start the keeper thread").with_source(source)
        })?;
        let process = std::process::id();
        let thread = started.insert(KeeperThread { handle, process });
        Ok(Self(Home::Thread(thread.clone())))
    }

    /// The runtime of the caller that acquires.
    pub fn caller() -> Self {
        Self(Home::Caller)
    }

    /// Runs `future` there and returns its handle; dropping the handle does not stop it.
    ///
    /// # Errors
    ///
    /// [`ErrorKind::Config`] on the caller's runtime when the caller is in no runtime, and on the
    /// keeper thread in a process that was forked since.
    pub fn spawn<F>(&self, future: F) -> Result<JoinHandle<F::Output>>
    where
        F: Future + Send + 'static,
        F::Output: Send + 'static,
    {
        Ok(self.handle()?.spawn(future))
    }

    /// Returns the runtime that holds are kept on.
    ///
    /// # Errors
    ///
    /// [`ErrorKind::Config`] on the caller's runtime when the caller is in no runtime, and on the
    /// keeper thread in a process that was forked since.
    pub fn handle(&self) -> Result<Handle> {
        match &self.0 {
            Home::Thread(thread) if thread.is_ours() => Ok(thread.handle.clone()),
            Home::Thread(_) => Err(Error::new(
                ErrorKind::Config,
                "this client was connected before its process forked, and nothing of it is renewed in the new process: connect there",
            )),
            Home::Caller => Handle::try_current().map_err(|source| {
                Error::new(
                    ErrorKind::Config,
                    "locks are acquired inside a Tokio runtime: call this from one",
                )
                .with_source(source)
            }),
        }
    }

    /// Returns true if it goes on when the runtime of a caller is blocked or gone.
    pub(crate) fn outlives_callers(&self) -> bool {
        matches!(self.0, Home::Thread(_))
    }
}

impl KeeperThread {
    fn is_ours(&self) -> bool {
        self.process == std::process::id()
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

/// Starts a thread that drives a runtime for the rest of the process's life.
fn start_thread() -> std::io::Result<Handle> {
    let runtime = Builder::new_current_thread().enable_all().build()?;
    let handle = runtime.handle().clone();
    std::thread::Builder::new()
        .name("polylock-keeper".into())
        .spawn(move || runtime.block_on(std::future::pending::<()>()))?;
    Ok(handle)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_forked_process_is_told_that_nothing_is_renewed() {
        let KeeperRuntime(Home::Thread(mut thread)) = KeeperRuntime::thread().unwrap() else {
            panic!("not a thread");
        };
        assert!(KeeperRuntime(Home::Thread(thread.clone())).handle().is_ok());
        // As a child sees it, which has what its parent had in memory.
        thread.process += 1;
        let error = KeeperRuntime(Home::Thread(thread)).handle().unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Config);
        assert!(error.to_string().contains("forked"), "{error}");
    }
}
