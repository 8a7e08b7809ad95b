//! What the core builds on every store: elections, reentrant locks and sets; and who holds a key.

pub(crate) mod elections;
pub(crate) mod inspection;
pub(crate) mod owners;
pub(crate) mod sets;
