//! Locks that are row locks of open transactions.

pub(crate) mod heartbeats;
pub(crate) mod holds;
pub(crate) mod row_locks;
pub(crate) mod statements;
pub(crate) mod takes;
