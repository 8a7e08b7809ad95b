//! How an instance crashes: nothing of what it was doing is finished or cleaned up.

use std::future::{Future, pending};
use std::process::ExitCode;
use std::sync::Arc;

use tokio::sync::Notify;

/// The exit status of a process that crashed on purpose, unlike that of one with a problem.
pub(crate) const CRASHED: u8 = 86;

/// What an instance is, and so how it can stop dead.
#[derive(Clone, Copy, Debug)]
pub(crate) enum CrashBy {
    /// It is a process of its own.
    EndingTheProcess,
    /// It is a thread with a runtime of its own.
    StoppingTheRuntime,
}

/// The way to crash of one task.
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

    /// Crashes the instance. Whoever calls it never gets to its next line.
    pub(crate) async fn now(&self) -> ! {
        match self.by {
            // Runs no destructor of any task and, unlike an abort, leaves no core file behind.
            CrashBy::EndingTheProcess => std::process::exit(CRASHED.into()),
            CrashBy::StoppingTheRuntime => self.crashed.notify_one(),
        }
        loop {
            pending::<()>().await;
        }
    }

    /// Runs `work`, of which every crash is part; `None` when it has crashed its instance.
    pub(crate) async fn survived_by<F: Future>(&self, work: F) -> Option<F::Output> {
        let mut work = Box::pin(work);
        tokio::select! {
            result = &mut work => Some(result),
            () = self.crashed.notified() => {
                // A crash runs no destructor: what it holds stays as it is, locks included.
                std::mem::forget(work);
                None
            }
        }
    }
}

/// How the service of an instance came to its end.
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
