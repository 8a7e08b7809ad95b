//! The waiters of a client, and their shared state.

pub(crate) mod queue_watch;
pub(crate) mod shared_wait;
pub(crate) mod shared_waits;
pub(crate) mod ticket;
