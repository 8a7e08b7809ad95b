//! Connections to the server, each shared by many requests.

pub(crate) mod abortable;
pub(crate) mod batch;
pub(crate) mod connect;
pub(crate) mod multiplexed;
pub(crate) mod preflight;
pub(crate) mod shared_connection;
