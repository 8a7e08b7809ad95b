//! Connections to the servers.

pub(crate) mod connect;
pub(crate) mod shared_connection;
pub(crate) mod tls_error;
pub(crate) mod url;
