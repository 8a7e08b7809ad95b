//! What the core builds on every store: elections, reentrant locks and sets.

pub(crate) mod elections;
pub(crate) mod owners;
pub(crate) mod sets;
