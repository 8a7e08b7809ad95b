//! What is asked of the server.

pub(crate) mod calls;
pub(crate) mod script;
