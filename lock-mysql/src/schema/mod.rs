//! What stands where on the server.

pub(crate) mod grant_clock;
pub(crate) mod names;
pub(crate) mod purge;
pub(crate) mod tables;
