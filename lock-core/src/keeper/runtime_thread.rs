//! A thread of this process that drives a runtime.

use std::future::pending;
use std::{io, process, thread};

use tokio::runtime::{Builder, Handle};

use crate::mutex::Mutex;

/// A thread that drives a runtime until the process ends, and does not keep the process running.
#[derive(Clone)]
pub(crate) struct RuntimeThread {
    handle: Handle,
    /// The process that started the thread. A forked process has none of its parent's threads.
    process: u32,
}

impl RuntimeThread {
    /// Returns the thread of this process in `started`; the first call of a process starts it.
    ///
    /// # Errors
    ///
    /// The error of the operating system if it cannot start the thread.
    pub(crate) fn of_process(started: &Mutex<Option<Self>>, name: &str) -> io::Result<Self> {
        let mut started = started.lock();
        if let Some(thread) = started.as_ref().filter(|thread| thread.handle().is_some()) {
            return Ok(thread.clone());
        }
        let handle = start(name)?;
        let process = process::id();
        Ok(started.insert(Self { handle, process }).clone())
    }

    /// Returns the handle of the runtime; `None` in a process forked since.
    pub(crate) fn handle(&self) -> Option<&Handle> {
        (self.process == process::id()).then_some(&self.handle)
    }

    /// Returns this thread as a forked process sees it: with a copy of its parent's memory, but
    /// another process id.
    #[cfg(test)]
    pub(crate) fn after_fork(mut self) -> Self {
        self.process += 1;
        self
    }
}

fn start(name: &str) -> io::Result<Handle> {
    let runtime = Builder::new_current_thread().enable_all().build()?;
    let handle = runtime.handle().clone();
    thread::Builder::new()
        .name(name.into())
        .spawn(move || runtime.block_on(pending::<()>()))?;
    Ok(handle)
}
