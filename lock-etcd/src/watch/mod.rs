//! The stream of watches, by which servers tell a client that keys have gone.

pub(crate) mod messages;
pub(crate) mod stream;
pub(crate) mod watches;
