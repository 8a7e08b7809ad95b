//! A lock inside one process: the contract in executable form.

mod lock;
mod store;

pub use lock::MemoryLock;
