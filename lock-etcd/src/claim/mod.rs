//! The claims of a client: their keys and values, and what changes them.

pub(crate) mod conversion;
pub(crate) mod key;
pub(crate) mod key_pool;
pub(crate) mod slots;
pub(crate) mod together;
pub(crate) mod value;
