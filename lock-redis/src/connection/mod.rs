//! One connection to the server, shared by all who ask something on it.

pub(crate) mod abortable;
pub(crate) mod batch;
pub(crate) mod connect;
pub(crate) mod multiplexed;
pub(crate) mod preflight;
pub(crate) mod shared;
