//! The watch stream, by which servers report deleted keys.

pub(crate) mod messages;
pub(crate) mod stream;
pub(crate) mod watches;
