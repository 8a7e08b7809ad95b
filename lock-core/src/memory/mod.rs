//! A lock inside one process, without a server.

mod lock;
mod store;

pub use lock::MemoryLock;
