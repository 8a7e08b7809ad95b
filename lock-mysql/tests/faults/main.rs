//! Locks over failing networks and servers, with a proxy between client and server.

mod bed;
mod deadlines;
mod partitions;
mod releases;
mod takes;

use std::time::Duration;

/// Time limit of a few round trips. Holds have far longer ttls, so within this limit no hold
/// expires.
const PROMPT: Duration = Duration::from_secs(10);

/// A ttl that no test outlasts.
const LONG: Duration = Duration::from_secs(60);
