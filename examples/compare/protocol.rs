//! The calls of the workers to the headquarters, and its replies.

use std::time::Duration;

use polylock::{Config, LockRequest};
use serde::{Deserialize, Serialize};

use crate::stage::problem::Problem;

/// A call of a worker.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) enum Call {
    /// Asks for the job of this worker.
    Apply { worker: u32 },
    /// The worker is prepared; answered once all workers are.
    Ready,
    /// The outcome of a rush.
    Rushed(Rushed),
    /// The worker holds its lock, and never releases it.
    Holding { worker: u32 },
}

/// The answer to a [`Call`].
#[derive(Debug, Serialize, Deserialize)]
pub(crate) enum Reply {
    Job(Job),
    Go,
}

/// The job of a worker.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) enum Job {
    /// Take and release one lock as often as possible.
    Rush {
        lock: Wanted,
        tasks: u32,
        lasting: Duration,
    },
    /// Take a lock, and crash while holding it.
    HoldAndCrash(Wanted),
    /// No further work.
    Rest,
}

/// A lock, and the URL of its store.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct Wanted {
    pub(crate) url: String,
    pub(crate) key: String,
    pub(crate) ttl: Duration,
    /// Maximum hand-off within a process; `None`: the default.
    pub(crate) hand_off: Option<Duration>,
}

impl Wanted {
    pub(crate) fn configuration(&self) -> Config {
        Config {
            hand_off: self.hand_off,
            ..Config::new(self.url.clone())
        }
    }

    pub(crate) fn request(&self) -> Result<LockRequest, Problem> {
        Ok(LockRequest::exclusive(&self.key)?.with_ttl(self.ttl))
    }
}

/// The outcome of a rush for one worker.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct Rushed {
    /// Waits in nanoseconds, each with the number of its occurrences.
    pub(crate) waits: Vec<(u64, u64)>,
    pub(crate) longest_without: Duration,
}
