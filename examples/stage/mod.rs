//! What the examples have in common: several instances of a service, each a thread or a process, which
//! may crash, and their way to the headquarters that stays the same whatever is compared.

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
