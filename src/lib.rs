//! One lock API, with the store that holds the locks as a line of configuration.
//!
//! The names of this crate in the order of a lock's life:
//!
//! 1. [`connect`] opens a client of the store that a URL or a [`Config`] names.
//! 2. [`DistributedLockExt`] takes locks by key: [`lock`](DistributedLockExt::lock),
//!    [`try_lock`](DistributedLockExt::try_lock), [`with_lock`](DistributedLockExt::with_lock).
//! 3. [`LockRequest`] sets the rest: the [`Mode`], the ttl, the [`Wait`], the lock delay.
//! 4. [`LockGuard`] is a held lock. It is renewed until it is released, dropped or lost.
//! 5. [`FencingToken`] is stored in the resource before the first read and goes with every write,
//!    so that the resource can refuse an outdated holder.
//! 6. [`HoldWatch`] follows the guard from other tasks and threads. [`HoldState`] says whether the
//!    renewal is overdue, and [`LossReason`] why a lock was lost.
//! 7. [`Error`] has an [`ErrorKind`], which says whether a retry can help.
//! 8. [`Capabilities`] says what the store supports, and under which conditions.
//!
//! ```
//! use polylock::{DistributedLockExt, ErrorKind, LockRequest, connect};
//!
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() -> polylock::Result<()> {
//! let locks = connect("memory://?ttl=10s").await?;
//! let request = LockRequest::exclusive("nightly-report")?.without_waiting();
//! let report = locks.with_lock(request, async |held| {
//!     format!("written with token {}", held.token())
//! });
//! match report.await {
//!     Ok(Some(report)) => println!("{report}"),
//!     Ok(None) => println!("another instance writes the report"),
//!     Err(error) if error.kind() == ErrorKind::Lost => println!("stopped in time: {error}"),
//!     Err(error) => return Err(error),
//! }
//! # Ok(())
//! # }
//! ```
//!
//! Backends are behind cargo features: `redis`, `mysql`, `etcd` (needs `protoc` to build) and
//! `zookeeper`. [`MemoryLock`] is always there, for one process and for tests. [`Registry`] adds
//! backends of other crates, which are built with [`backend`].
//!
//! The feature `driver` re-exports the drivers of the backends. It is exempt from semantic
//! versioning.

mod backends;
mod config;
mod configured;
mod connect;
mod deserialize;
mod environment;
mod fields;
mod read;
mod registry;
mod routes;
mod url;

pub use config::Config;
pub use connect::{IntoConfig, connect};
#[doc(inline)]
pub use lock_core::*;
#[cfg(feature = "etcd")]
pub use lock_etcd as etcd;
#[cfg(feature = "mysql")]
pub use lock_mysql as mysql;
#[cfg(feature = "redis")]
pub use lock_redis as redis;
#[cfg(feature = "zookeeper")]
pub use lock_zookeeper as zookeeper;
pub use registry::Registry;

/// Traits and parts for authors of a backend, and its registration in a [`Registry`].
pub mod backend {
    #[doc(inline)]
    pub use lock_core::backend::*;

    pub use crate::registry::backend::{Backend, BackendOptions};
}

/// Compiles the code of the documents.
#[cfg(doctest)]
mod documents {
    #[doc = include_str!("../README.md")]
    struct Readme;
    #[doc = include_str!("../docs/custom-backend.md")]
    struct CustomBackend;
    #[doc = include_str!("../docs/fencing.md")]
    struct Fencing;
    #[doc = include_str!("../docs/operations.md")]
    struct Operations;
    #[doc = include_str!("../docs/recipes.md")]
    struct Recipes;
    #[doc = include_str!("../docs/stores/memory.md")]
    struct Memory;
}
