//! What the workers ask of whoever measures, and what they are told.

use std::time::Duration;

use polylock::{Config, LockRequest};
use serde::{Deserialize, Serialize};

use crate::stage::problem::Problem;

/// A call of a worker.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) enum Call {
    /// What is there to do for this worker?
    Apply { worker: u32 },
    /// Prepared; answered when every worker is.
    Ready,
    /// What came of a rush.
    Rushed(Rushed),
    /// This worker has its lock. Whatever happens next, it does not release it.
    Holding { worker: u32 },
}

/// The answer to a [`Call`].
#[derive(Debug, Serialize, Deserialize)]
pub(crate) enum Reply {
    Job(Job),
    Go,
}

/// What a worker has to do.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) enum Job {
    /// To take and release one lock as often as it can be had.
    Rush {
        lock: Wanted,
        tasks: u32,
        lasting: Duration,
    },
    /// To take a lock, and to crash with it.
    HoldAndCrash(Wanted),
    /// Nothing any more.
    Rest,
}

/// A lock, and where it is.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct Wanted {
    pub(crate) url: String,
    pub(crate) key: String,
    pub(crate) ttl: Duration,
    /// How long it passes from task to task of a process without asking the store; as it is by default if
    /// missing.
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

/// What came of a rush for one worker.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct Rushed {
    /// Each wait in nanoseconds, with how often it was so long.
    pub(crate) waits: Vec<(u64, u64)>,
    pub(crate) longest_without: Duration,
}
