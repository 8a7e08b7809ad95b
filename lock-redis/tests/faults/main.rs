//! Locks on networks and servers that fail, with a proxy between client and server.

mod bed;
mod cycles;
mod deadlines;
mod late;
mod operators;
mod partitions;
mod releases;
mod stalls;
mod takes;
mod waiting;

use std::time::Duration;

/// The time that a few round trips may take.
///
/// Holds have far longer ttls, so a hold that is gone by then was not ended by its ttl.
const PROMPT: Duration = Duration::from_secs(10);

/// A ttl that outlasts every test.
const LONG: Duration = Duration::from_secs(60);
