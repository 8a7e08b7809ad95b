//! What all servers have in common: a process with a port, a directory and maybe a clock.

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

/// The process of a server, which is stopped when this is dropped.
///
/// Every server here dereferences to its process: `server.freeze()` is all that a test says.
pub struct ServerProcess {
    // Declared first, so dropped first: the process goes before its directory.
    process: Mutex<Process>,
    site: Site,
    name: &'static str,
    start: Start,
}

/// What stays when a server is restarted.
pub(super) struct Site {
    directory: TempDir,
    pub(super) clock: Option<Clock>,
    pub(super) port: u16,
}

/// Starts the process, and waits until it is ready.
pub(super) type Start = Box<dyn Fn(&Site) -> io::Result<Process> + Send + Sync>;

/// Whether the wall clock of a server can be set.
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
    /// Starts a server called `name` on a port that nobody else takes meanwhile. For each port that
    /// is tried, `prepare` makes what the server needs, says how to start it there, and what else
    /// there is to know about it.
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

    /// Its plain port on the loopback interface.
    pub fn port(&self) -> u16 {
        self.site.port
    }

    /// Its process id; another one after [`restart`](Self::restart).
    pub fn pid(&self) -> u32 {
        self.process().id()
    }

    /// Its directory, with the file `log` and whatever it persists.
    pub fn directory(&self) -> &Path {
        self.site.directory()
    }

    /// Stops it where it stands: connections stay open, and nothing is answered. Returns when it
    /// has stopped.
    ///
    /// # Panics
    ///
    /// When the server was [killed](Self::kill).
    pub fn freeze(&self) {
        self.process().freeze();
    }

    /// Lets it go on after [`freeze`](Self::freeze); harmless when it is not frozen.
    ///
    /// # Panics
    ///
    /// When the server was [killed](Self::kill).
    pub fn thaw(&self) {
        self.process().thaw();
    }

    /// Sets its wall clock ahead of the machine's. Its monotonic clock stays as it is, and what it
    /// waits for lasts as long as ever.
    ///
    /// # Panics
    ///
    /// When it was not started with a settable clock.
    pub fn set_clock_ahead(&self, by: Duration) {
        self.settable_clock().set_ahead(by);
    }

    /// Sets its wall clock behind the machine's.
    ///
    /// # Panics
    ///
    /// When it was not started with a settable clock.
    pub fn set_clock_back(&self, by: Duration) {
        self.settable_clock().set_back(by);
    }

    fn settable_clock(&self) -> &Clock {
        let clock = self.site.clock.as_ref();
        clock.expect("a server that was started with a settable clock")
    }

    /// Ends it at once, as a crash would; harmless when it has ended.
    ///
    /// # Panics
    ///
    /// When the operating system does not let us.
    pub fn kill(&self) {
        self.process().kill().expect("the server is our child");
    }

    /// Starts it anew, on the same port and in the same directory, killing it if it is running. It
    /// has what it has persisted there: an SQL server all that was committed, a Redis server nothing
    /// unless it was told to persist.
    ///
    /// # Panics
    ///
    /// When it does not start again.
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
