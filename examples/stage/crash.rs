//! The crash of an instance: nothing that it was doing is finished or cleaned up.

use std::future::{Future, pending};
use std::process::ExitCode;
use std::sync::Arc;

use tokio::sync::Notify;

/// The exit status of a process that crashed on purpose, unlike that of a process with a problem.
pub(crate) const CRASHED: u8 = 86;

/// The kind of an instance, which determines how it can crash.
#[derive(Clone, Copy, Debug)]
pub(crate) enum CrashBy {
    /// The instance is a process.
    EndingTheProcess,
    /// The instance is a thread with a runtime of its own.
    StoppingTheRuntime,
}

/// A handle by which a task crashes its instance.
#[derive(Clone, Debug)]
pub(crate) struct Crash {
    by: CrashBy,
    crashed: Arc<Notify>,
}

impl Crash {
    pub(crate) fn new(by: CrashBy) -> Self {
        Self {
            by,
            crashed: Arc::default(),
        }
    }

    /// Crashes the instance, and never returns.
    pub(crate) async fn now(&self) -> ! {
        match self.by {
            // `exit` runs no destructor of any task and, unlike `abort`, leaves no core file.
            CrashBy::EndingTheProcess => std::process::exit(CRASHED.into()),
            CrashBy::StoppingTheRuntime => self.crashed.notify_one(),
        }
        loop {
            pending::<()>().await;
        }
    }

    /// Runs `work`, which may crash the instance; returns `None` after a crash.
    pub(crate) async fn survived_by<F: Future>(&self, work: F) -> Option<F::Output> {
        let mut work = Box::pin(work);
        tokio::select! {
            result = &mut work => Some(result),
            () = self.crashed.notified() => {
                // A crash runs no destructor: everything that `work` holds stays as it is, locks
                // included.
                std::mem::forget(work);
                None
            }
        }
    }
}

/// The end of an instance's service.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum End {
    Finished,
    Crashed,
}

impl From<End> for ExitCode {
    fn from(end: End) -> Self {
        match end {
            End::Finished => ExitCode::SUCCESS,
            End::Crashed => ExitCode::from(CRASHED),
        }
    }
}
