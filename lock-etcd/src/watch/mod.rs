//! The watch stream, by which servers report deleted and changed keys.

pub(crate) mod messages;
pub(crate) mod stream;
pub(crate) mod watches;
