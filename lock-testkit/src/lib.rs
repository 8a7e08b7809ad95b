//! Proves that a lock backend keeps the contract of polylock, and starts real servers to prove it
//! on.
//!
//! For authors of a backend, here or elsewhere: say how to reach a store ([`Store`]), write one
//! line, and `cargo test` runs every case of the contract against it, each under its own name.
//!
//! ```
//! use std::sync::Arc;
//!
//! use lock_core::{DistributedLock, MemoryLock};
//! use lock_testkit::{Case, Store};
//!
//! struct Memory(MemoryLock);
//!
//! #[lock_testkit::async_trait]
//! impl Store for Memory {
//!     async fn client(&self) -> Arc<dyn DistributedLock> {
//!         Arc::new(self.0.new_client())
//!     }
//!     async fn residue(&self) -> Vec<String> {
//!         self.0.claims()
//!     }
//! }
//!
//! async fn new_store(_case: Case) -> Memory {
//!     Memory(MemoryLock::new())
//! }
//!
//! lock_testkit::conformance!(new_store);
//! # fn main() {}
//! ```
//!
//! - What a backend declares in its [`Capabilities`](lock_core::Capabilities) is proved; a mode that
//!   it does not declare has to answer [`Unsupported`](lock_core::ErrorKind::Unsupported).
//! - At the end the output says how many cases were proved, and which were skipped and why; code that calls
//!   [`run`] by itself gets that as a [`Summary`].
//! - Holders in other processes are killed and stopped, if [`Store::address`] tells how these reach the store.
//! - Every case ends with nothing left on the store, or fails naming what is left.
//! - A case that fails while the machine itself stood still is run again, and that is printed; not one
//!   about exclusion, modes or fencing. [`steady`] does the same for other tests, but not for what
//!   [`assert_excluded!`] says.
//! - A case that draws random numbers fails with its seed; `LOCK_TESTKIT_SEED` repeats it.
//!
//! [`servers`] starts real servers as child processes; [`faults`] stands between them and a client;
//! [`processes`] are other clients, to be killed and stopped; [`history`] proves of what they wrote down
//! that no promise was broken; [`eventually`] is how to wait in a test, [`poll_times`] how to give up;
//! [`Comparison`] is how to see what a lock costs.

mod bench;
mod blocking;
mod case;
mod cases;
mod client;
mod comparison;
mod conformance;
mod connected;
mod eventually;
mod excluded;
mod join;
mod polls;
mod run;
mod section;
mod stalls;
mod steady;
mod stop;
mod store;

pub mod faults;
pub mod history;
pub mod location;
pub mod measure;
pub mod processes;
pub mod servers;

pub use async_trait::async_trait;
pub use blocking::{block_thread, block_workers};
pub use case::{Case, Group, Need, Outcome};
pub use comparison::{Comparison, Ratios};
pub use conformance::cases;
pub use connected::connected;
pub use eventually::eventually;
#[doc(hidden)]
pub use excluded::two_holders as __two_holders;
pub use polls::poll_times;
pub use run::run;
#[doc(hidden)]
pub use run::run_named as __run_named;
pub use run::summary::Summary;
pub use steady::steady;
pub use store::{Store, crash_with_runtime};
