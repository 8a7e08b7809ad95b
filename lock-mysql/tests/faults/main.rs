//! Locks over networks and servers that fail, with a proxy between client and server.

mod bed;
mod deadlines;
mod partitions;
mod releases;
mod takes;

use std::time::Duration;

/// How long anything may take that takes a few round trips. Holds live far longer, so that what is
/// gone by then was not ended by its ttl.
const PROMPT: Duration = Duration::from_secs(10);

/// A ttl that nothing here outlasts.
const LONG: Duration = Duration::from_secs(60);
