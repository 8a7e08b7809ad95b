//! What the workers ask of the headquarters, and what they are told.

use std::path::PathBuf;
use std::time::Duration;

use polylock::Config;
use serde::{Deserialize, Serialize};

use crate::stage::LockStore;
use crate::stage::problem::Problem;

/// A call of a worker.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) enum Call {
    /// What is there to do for this worker, which is the process with this id?
    Apply { worker: u32, process: u32 },
    /// What is to be done besides? LastReply when there is something.
    Orders { worker: u32 },
    /// What is in this register?
    Read { holder: Holder, register: usize },
    /// One more than what was read.
    Write { holder: Holder, register: usize },
    /// The lock was still held after all that.
    Confirm { holder: Holder, register: usize },
    /// So many locks were granted since the last time.
    Granted(u64),
}

/// The answer to a [`Call`].
#[derive(Debug, Serialize, Deserialize)]
pub(crate) enum Reply {
    Job(Job),
    Order(Order),
    Done,
}

/// Who has a lock.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub(crate) struct Holder {
    pub(crate) worker: u32,
    pub(crate) life: u32,
    pub(crate) token: u64,
}

/// What a worker is told besides its job.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum Order {
    /// Do nothing at all for so long. Only for workers that are threads: processes are stopped.
    Stand(Duration),
    /// Crash. Only for workers that are threads, likewise.
    Crash,
    /// Ask for nothing more, and end.
    End,
}

/// What a worker has to do.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct Job {
    pub(crate) life: u32,
    pub(crate) seed: u64,
    store: LockStore,
    /// The way to the store through the worker's own proxies, if there are any.
    url: Option<String>,
    /// What all keys begin with.
    pub(crate) keys: String,
    pub(crate) ttl: Duration,
    /// How long one hold may be handed on inside of a process.
    hand_off: Duration,
    /// Where the records go.
    pub(crate) records: PathBuf,
    pub(crate) work: Work,
}

/// What kind of work it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum Work {
    /// Everything there is.
    All,
    /// Updates of registers only, by holders that pay no attention to their locks.
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
        // No other run, here or elsewhere on the same store, has these keys.
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

    /// The same by another way.
    pub(crate) fn by(self, url: Option<String>) -> Self {
        Self { url, ..self }
    }

    /// The same for another life of a worker.
    pub(crate) fn in_life(self, life: u32) -> Self {
        Self { life, ..self }
    }

    /// What polylock is configured with.
    pub(crate) fn configuration(&self) -> Result<Config, Problem> {
        let mut config = self.store.configuration()?;
        if let Some(url) = &self.url {
            config.url.clone_from(url);
        }
        config.hand_off = Some(self.hand_off);
        Ok(config)
    }

    /// The name of a worker in its present life.
    pub(crate) fn name(&self, worker: u32) -> String {
        name(worker, self.life)
    }
}

pub(crate) fn name(worker: u32, life: u32) -> String {
    format!("{worker}.{life}")
}
