//! A conformance kit for lock backends: test cases, real servers, network faults and measurements.
//!
//! For authors of a backend: implement [`Store`] and write one line. `cargo test` then runs every
//! case of the contract against the store, each as a test of its own.
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
//! - Cases prove each capability that a backend declares
//!   ([`Capabilities`](lock_core::Capabilities)). A mode that the backend does not declare has to
//!   fail with [`Unsupported`](lock_core::ErrorKind::Unsupported).
//! - At the end the tests print how many cases were proved, and which were skipped and why. Code
//!   that calls [`run`] itself collects the same in a [`Summary`].
//! - Some cases kill and stop lock holders in other processes. They need [`Store::address`], which
//!   tells these processes how to reach the store.
//! - At the end of each case the store has to be empty. Otherwise the case fails and lists the
//!   remaining entries.
//! - A case that fails during a stall of the machine runs again, and the output says so. Cases
//!   about exclusion, modes and fencing never run again. [`steady`] does the same for other tests,
//!   but not for failures of [`assert_excluded!`].
//! - A case that fails prints the seed of its random numbers. `LOCK_TESTKIT_SEED` repeats it.
//!
//! Other parts of the kit:
//!
//! - [`servers`] starts real servers as child processes.
//! - [`faults`] puts a proxy with network faults between a client and its server.
//! - [`processes`] starts lock holders in other processes, which a test kills or stops.
//! - [`history`] checks the records of several processes for broken promises.
//! - [`measure`] measures times, round trips, processor time and memory.
//! - [`eventually`] waits for a predicate, and [`poll_times`] cancels a future.
//! - [`Comparison`] measures the cost of a lock.

mod answered;
mod bench;
mod blocking;
mod case;
mod cases;
mod client;
mod comparison;
mod conformance;
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

pub use answered::answered;
pub use async_trait::async_trait;
pub use blocking::{block_thread, block_workers};
pub use case::{Case, Group, Need, Outcome};
pub use comparison::{Comparison, Ratios};
pub use conformance::cases;
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
