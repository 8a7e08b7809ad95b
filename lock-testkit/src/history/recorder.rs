//! Recording of a process's use of locks.

use std::fmt;
use std::fs::File;
use std::io::{self, Write};
use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use lock_core::LockRequest;
use lock_core::backend::{Clock, Moment};

use super::event::{Effect, Event, Happening};
use crate::stalls;

/// A recorder for one process's part of a history; the [module](crate::history) has an example.
///
/// It passes every line to the operating system at once, so lines outlive a killed process. Clones
/// write to the same place.
#[derive(Clone)]
pub struct Recorder {
    shared: Arc<Shared>,
}

struct Shared {
    worker: String,
    claims: AtomicU64,
    lines: Mutex<Box<dyn Write + Send>>,
}

impl Recorder {
    /// Creates a recorder that writes to a new file, in the name of `worker`.
    ///
    /// # Errors
    ///
    /// If the file cannot be created.
    pub fn create(file: impl AsRef<Path>, worker: impl Into<String>) -> io::Result<Self> {
        Ok(Self::new(File::create(file)?, worker))
    }

    /// Creates a recorder that writes to `lines`, in the name of `worker`.
    pub fn new(lines: impl Write + Send + 'static, worker: impl Into<String>) -> Self {
        Self {
            shared: Arc::new(Shared {
                worker: worker.into(),
                claims: AtomicU64::new(0),
                lines: Mutex::new(Box::new(lines)),
            }),
        }
    }

    /// Returns the time in nanoseconds, on the clock that all processes of a machine share.
    pub fn now() -> u64 {
        Clock::Boot.now().nanoseconds().unsigned_abs()
    }

    /// Records a fault that began at `since` and ends now.
    ///
    /// `worker` is the affected process; `None` means all processes.
    pub fn fault(&self, worker: Option<&str>, kind: &str, since: u64, effect: Effect) {
        let (kind, until) = (kind.to_owned(), Self::now());
        let worker = worker.map(str::to_owned);
        let what = Happening::Fault {
            kind,
            until,
            effect,
        };
        self.write(&Event {
            at: since,
            worker,
            what,
        });
    }

    /// Records that `worker` is about to be killed.
    pub fn death(&self, worker: &str) {
        self.write(&Event {
            at: Self::now(),
            worker: Some(worker.to_owned()),
            what: Happening::Death,
        });
    }

    /// Records an event that concerns all processes.
    pub fn note(&self, at: u64, what: Happening) {
        let worker = None;
        self.write(&Event { at, worker, what });
    }

    /// Watches for stalls of the machine, which the returned value records when it is dropped.
    #[must_use = "it notes nothing any more when it is dropped"]
    pub fn watch_stalls(&self) -> StallWatch {
        stalls::watch();
        StallWatch {
            recorder: self.clone(),
            begin: Clock::Boot.now(),
        }
    }

    /// Records a claim that is about to be made, and returns its number.
    pub(super) fn invoke(&self, request: &LockRequest) -> u64 {
        let claim = self.shared.claims.fetch_add(1, Ordering::Relaxed);
        let what = Happening::Invoke {
            claim,
            key: request.key.as_str().to_owned(),
            mode: request.mode,
            ttl_ms: request.ttl().as_millis().try_into().unwrap_or(u64::MAX),
        };
        self.own(Self::now(), what);
        claim
    }

    /// Records an event of this worker.
    pub(super) fn own(&self, at: u64, what: Happening) {
        let worker = Some(self.shared.worker.clone());
        self.write(&Event { at, worker, what });
    }

    /// Writes an event as a line of JSON.
    ///
    /// # Panics
    ///
    /// If the line cannot be written: a history with gaps proves nothing.
    fn write(&self, event: &Event) {
        let mut line = serde_json::to_vec(event).expect("an event is always JSON");
        line.push(b'\n');
        let mut lines = self
            .shared
            .lines
            .lock()
            .unwrap_or_else(PoisonError::into_inner);
        lines.write_all(&line).expect("a place for the history");
    }
}

impl fmt::Debug for Recorder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Recorder({})", self.shared.worker)
    }
}

/// A watch for stalls of the machine, which it records when it is dropped.
///
/// ```
/// use lock_testkit::history::Recorder;
///
/// let recorder = Recorder::new(std::io::sink(), "one");
/// let stalls = recorder.watch_stalls();
/// drop(stalls);
/// ```
#[derive(Debug)]
pub struct StallWatch {
    recorder: Recorder,
    begin: Moment,
}

impl Drop for StallWatch {
    fn drop(&mut self) {
        for (at, until) in stalls::all_since(self.begin) {
            self.recorder.note(at, Happening::Stall { until });
        }
    }
}
