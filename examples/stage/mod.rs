//! The common parts of the examples: instances of a service, and their connection to the
//! headquarters.
//!
//! Each instance is a thread or a process, and may crash. The headquarters is the same for all
//! compared ways.

pub(crate) mod crash;
mod hosts;
pub(crate) mod locks;
pub(crate) mod problem;
pub(crate) mod progress;
mod transport;
mod wire;

pub(crate) use hosts::{Instance, run_instances, serve_in_process};
pub(crate) use locks::LockStore;
pub(crate) use transport::{Message, Transport};
