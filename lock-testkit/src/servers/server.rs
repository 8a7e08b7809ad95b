//! The common part of all servers: a process with a port, a directory and an optional clock.

use std::fmt;
use std::io;
use std::path::Path;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tempfile::TempDir;

use super::clock::Clock;
use super::ground;
use super::port::{ATTEMPTS, free_port};
use super::process::{Process, log};

/// The process of a server. Dropping it stops the process.
///
/// All servers of this module with a single process dereference to it.
///
/// ```no_run
/// use lock_testkit::servers::{RedisServer, ServerProcess};
///
/// fn crash(server: &ServerProcess) {
///     server.kill();
///     server.restart();
/// }
/// crash(&RedisServer::start());
/// ```
pub struct ServerProcess {
    // Declared first, so dropped first: the process ends before its directory is removed.
    process: Mutex<Process>,
    site: Site,
    name: &'static str,
    start: Start,
}

/// The parts of a server that a restart keeps.
pub(super) struct Site {
    directory: TempDir,
    pub(super) clock: Option<Clock>,
    pub(super) port: u16,
}

/// A function that starts the process, and waits until it is ready.
pub(super) type Start = Box<dyn Fn(&Site) -> io::Result<Process> + Send + Sync>;

#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum WallClock {
    Real,
    Settable,
}

impl Site {
    fn new(name: &str, clock: WallClock) -> Self {
        let directory = ground::directory(name);
        let clock = (clock == WallClock::Settable).then(|| Clock::new(directory.path()));
        Self {
            directory,
            clock,
            port: free_port(),
        }
    }

    pub(super) fn directory(&self) -> &Path {
        self.directory.path()
    }

    fn log(&self) -> String {
        log(self.directory())
    }
}

impl ServerProcess {
    /// Starts a server called `name` on a free port.
    ///
    /// For each port that is tried, `prepare` creates the files of the server. It returns the
    /// function that starts the server, and further data.
    pub(super) fn start<T>(
        name: &'static str,
        clock: WallClock,
        prepare: impl Fn(&Site) -> (Start, T),
    ) -> (Self, T) {
        for _ in 0..ATTEMPTS {
            let site = Site::new(name, clock);
            let (start, more) = prepare(&site);
            match start(&site) {
                Ok(process) => {
                    let process = Mutex::new(process);
                    let this = Self {
                        process,
                        site,
                        name,
                        start,
                    };
                    return (this, more);
                }
                Err(_) if site.log().contains("Address already in use") => {}
                Err(error) => panic!("{name} does not start: {error}\n{}", site.log()),
            }
        }
        panic!("{name} does not start: {ATTEMPTS} ports were taken by others meanwhile");
    }

    /// Returns the plain port on the loopback interface.
    pub fn port(&self) -> u16 {
        self.site.port
    }

    /// Returns the process id, which changes with a [`restart`](Self::restart).
    pub fn pid(&self) -> u32 {
        self.process().id()
    }

    /// Returns the directory of the server, with the file `log` and its persistent data.
    pub fn directory(&self) -> &Path {
        self.site.directory()
    }

    /// Stops the process with `SIGSTOP`; returns once it has stopped.
    ///
    /// Connections stay open, and no request is answered.
    ///
    /// # Panics
    ///
    /// If the server was [killed](Self::kill).
    pub fn freeze(&self) {
        self.process().freeze();
    }

    /// Continues the process after [`freeze`](Self::freeze); has no effect on a process that runs.
    ///
    /// # Panics
    ///
    /// If the server was [killed](Self::kill).
    pub fn thaw(&self) {
        self.process().thaw();
    }

    /// Sets the wall clock of the server ahead of the clock of the machine.
    ///
    /// The monotonic clock stays as it is, so timeouts last as long as before.
    ///
    /// # Panics
    ///
    /// If the server was not started with a settable clock.
    pub fn set_clock_ahead(&self, by: Duration) {
        self.settable_clock().set_ahead(by);
    }

    /// Sets the wall clock of the server behind the clock of the machine.
    ///
    /// # Panics
    ///
    /// If the server was not started with a settable clock.
    pub fn set_clock_back(&self, by: Duration) {
        self.settable_clock().set_back(by);
    }

    fn settable_clock(&self) -> &Clock {
        let clock = self.site.clock.as_ref();
        clock.expect("a server that was started with a settable clock")
    }

    /// Kills the process, as a crash does; has no effect on a server that has ended.
    ///
    /// # Panics
    ///
    /// If the operating system refuses.
    pub fn kill(&self) {
        self.process().kill().expect("the server is our child");
    }

    /// Starts the server again on the same port and in the same directory.
    ///
    /// Kills the server first if it is running. The server has its persistent data: an SQL server
    /// all commits, a Redis server none unless its arguments enable persistence.
    ///
    /// # Panics
    ///
    /// If the server does not start again.
    pub fn restart(&self) {
        let mut process = self.process();
        process.kill().expect("the server is our child");
        *process = (self.start)(&self.site).unwrap_or_else(|error| {
            panic!(
                "{} does not start again: {error}\n{}",
                self.name,
                self.site.log()
            )
        });
    }

    fn process(&self) -> MutexGuard<'_, Process> {
        self.process.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl fmt::Debug for ServerProcess {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ServerProcess")
            .field("name", &self.name)
            .field("pid", &self.pid())
            .field("port", &self.port())
            .field("directory", &self.directory())
            .finish()
    }
}
