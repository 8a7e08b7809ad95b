//! What a network does to locks: a proxy stands between a client and a real server.

mod bed;
mod deadlines;
mod partitions;
mod patience;
mod releases;
mod takes;
mod waiting;

use std::time::Duration;

/// How long a few round trips may take on a busy machine.
const PROMPT: Duration = Duration::from_secs(10);

/// The ttl of holds that are watched for a while.
const TTL: Duration = Duration::from_secs(3);
