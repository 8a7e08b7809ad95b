//! Connections to the servers.

pub(crate) mod connect;
pub(crate) mod diagnosis;
pub(crate) mod open;
pub(crate) mod request_size;
#[cfg(feature = "tls")]
pub(crate) mod tls;
