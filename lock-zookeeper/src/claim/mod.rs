//! The claims of a client: their nodes, their records, and their removal.

pub(crate) mod foreign;
pub(crate) mod node;
pub(crate) mod position;
pub(crate) mod registry;
pub(crate) mod removal;
pub(crate) mod slot;
