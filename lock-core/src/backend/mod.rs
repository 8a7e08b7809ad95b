//! The traits that a backend implements, and the parts that it is given.

pub(crate) mod acquire;
pub(crate) mod backoff;
pub(crate) mod claim;
pub(crate) mod deadlines;
pub(crate) mod fair_queue;
pub(crate) mod followers;
pub(crate) mod in_flight;
pub(crate) mod lease_store;
pub(crate) mod local_queue;
pub(crate) mod per_runtime;
pub(crate) mod percent;
pub(crate) mod reconnecting;
pub(crate) mod reply_stats;
pub(crate) mod retry;
