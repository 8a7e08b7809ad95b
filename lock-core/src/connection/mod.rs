//! Shared connections, timeouts, batches, and requests that complete without their caller.

pub(crate) mod addresses;
pub(crate) mod batch_size;
pub(crate) mod deadlines;
pub(crate) mod detached;
pub(crate) mod in_flight;
pub(crate) mod on_demand;
pub(crate) mod per_runtime;
pub(crate) mod percent;
pub(crate) mod reconnecting;
pub(crate) mod two_routes;
