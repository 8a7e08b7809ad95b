//! The commands and scripts that are sent to the server.

pub(crate) mod calls;
pub(crate) mod script;
pub(crate) mod together;
