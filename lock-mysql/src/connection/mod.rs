//! Connections to the server, and the requests on them.

pub(crate) mod allowance;
pub(crate) mod connect;
pub(crate) mod connection_id;
pub(crate) mod held_back;
pub(crate) mod idle;
pub(crate) mod in_flight;
pub(crate) mod kill;
pub(crate) mod pool;
pub(crate) mod request;
pub(crate) mod retrying_query;
pub(crate) mod session;
pub(crate) mod tls;
