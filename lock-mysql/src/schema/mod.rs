//! The tables on the server, and the names in them.

pub(crate) mod grant_clock;
pub(crate) mod latest_columns;
pub(crate) mod literals;
pub(crate) mod names;
pub(crate) mod purge;
pub(crate) mod tables;
