//! What the core builds on every store: reentrant locks and sets.

pub(crate) mod owners;
pub(crate) mod sets;
