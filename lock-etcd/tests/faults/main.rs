//! Locks on networks that fail, with a proxy between a client and a real server.

mod bed;
mod conversions;
mod deadlines;
mod partitions;
mod patience;
mod releases;
mod takes;
mod waiting;

use std::time::Duration;

/// The time that a few round trips may take on a busy machine.
const PROMPT: Duration = Duration::from_secs(10);

/// The ttl of holds that tests observe for a while.
const TTL: Duration = Duration::from_secs(3);
