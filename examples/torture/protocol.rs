//! The calls of the workers to the headquarters, and its replies.

use std::path::PathBuf;
use std::time::Duration;

use polylock::Config;
use serde::{Deserialize, Serialize};

use crate::stage::LockStore;
use crate::stage::problem::Problem;

/// A call of a worker.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) enum Call {
    /// Asks for the job of this worker, whose process has this id.
    Apply { worker: u32, process: u32 },
    /// Asks for the next order; answered once there is an order.
    Orders { worker: u32 },
    /// Reads this register.
    Read { holder: Holder, register: usize },
    /// Writes the value that was read, plus one.
    Write { holder: Holder, register: usize },
    /// Confirms that the lock was still held after the write.
    Confirm { holder: Holder, register: usize },
    /// Reports the number of grants since the last report.
    Granted(u64),
}

/// The answer to a [`Call`].
#[derive(Debug, Serialize, Deserialize)]
pub(crate) enum Reply {
    Job(Job),
    Order(Order),
    Done,
}

/// The holder of a lock.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub(crate) struct Holder {
    pub(crate) worker: u32,
    pub(crate) life: u32,
    pub(crate) token: u64,
}

/// An order to a worker, in addition to its job.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum Order {
    /// Block the thread for this long. Worker processes are stopped by a signal instead.
    Stand(Duration),
    /// Crash. Worker processes are killed by a signal instead.
    Crash,
    /// Request no more locks, and end.
    End,
}

/// The job of a worker, and the settings for it.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct Job {
    pub(crate) life: u32,
    pub(crate) seed: u64,
    store: LockStore,
    /// The URL through the worker's own proxies, if there are any.
    url: Option<String>,
    /// The prefix of all keys.
    pub(crate) keys: String,
    pub(crate) ttl: Duration,
    /// Maximum time that a hold is handed on within a process.
    hand_off: Duration,
    /// The directory of the records.
    pub(crate) records: PathBuf,
    pub(crate) work: Work,
}

/// The kind of work.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum Work {
    /// All kinds of locks.
    All,
    /// Only updates of registers, by holders that ignore the loss of their locks.
    Careless,
}

impl Job {
    pub(crate) fn new(
        seed: u64,
        store: LockStore,
        ttl: Duration,
        hand_off: Duration,
        records: PathBuf,
        work: Work,
    ) -> Self {
        // No other run on the same store has these keys.
        let keys = format!(
            "torture/{:016x}-{:x}",
            fastrand::u64(..),
            std::process::id()
        );
        Self {
            life: 0,
            seed,
            store,
            url: None,
            keys,
            ttl,
            hand_off,
            records,
            work,
        }
    }

    /// Returns the job with another URL of the store.
    pub(crate) fn by(self, url: Option<String>) -> Self {
        Self { url, ..self }
    }

    /// Returns the job for another life of a worker.
    pub(crate) fn in_life(self, life: u32) -> Self {
        Self { life, ..self }
    }

    /// Returns the configuration for polylock.
    pub(crate) fn configuration(&self) -> Result<Config, Problem> {
        let mut config = self.store.configuration()?;
        if let Some(url) = &self.url {
            config.url.clone_from(url);
        }
        config.hand_off = Some(self.hand_off);
        Ok(config)
    }

    /// Returns the name of a worker in its present life.
    pub(crate) fn name(&self, worker: u32) -> String {
        name(worker, self.life)
    }
}

pub(crate) fn name(worker: u32, life: u32) -> String {
    format!("{worker}.{life}")
}
