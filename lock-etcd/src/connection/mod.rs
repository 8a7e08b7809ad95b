//! Connections to the servers.

pub(crate) mod connect;
pub(crate) mod shared;
pub(crate) mod tls_error;
pub(crate) mod url;
