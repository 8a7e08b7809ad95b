//! One lock API, with the store that holds the locks as a line of configuration.
//!
//! The names of this crate in the order of a lock's life:
//!
//! 1. [`connect`] opens a client of the store that a URL or a [`Config`] names. [`connect_within`]
//!    waits for a store that starts later, and [`connect_lazy`] connects at the first use.
//! 2. [`DistributedLockExt`] takes locks by key: [`lock`](DistributedLockExt::lock),
//!    [`try_lock`](DistributedLockExt::try_lock), [`with_lock`](DistributedLockExt::with_lock).
//! 3. [`LockRequest`] sets the rest: the [`Mode`], the ttl, the [`Wait`], the lock delay.
//! 4. [`LockGuard`] is a held lock. It is renewed until it is released, dropped or lost.
//! 5. [`FencingToken`] is stored in the resource before the first read and goes with every write,
//!    so that the resource can refuse an outdated holder.
//! 6. [`HoldWatch`] follows the guard from other tasks and threads. [`HoldState`] says whether the
//!    renewal is overdue, and [`LossReason`] why a lock was lost.
//! 7. [`Error`] has an [`ErrorKind`], which says whether a retry can help.
//! 8. [`Capabilities`] says what the store supports, and under which conditions. [`Health`] says
//!    whether it answers.
//!
//! Threads without async use [`blocking`], which has the same methods.
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
//! The feature `driver` re-exports the drivers of the backends, and adds `RedisLock::from_client` and
//! `MySqlLock::from_pool`. It is exempt from semantic versioning.

mod backends;
pub mod blocking;
mod builder;
mod config;
mod configured;
mod connect;
mod deserialize;
mod environment;
mod fields;
mod lazy;
#[cfg(feature = "macros")]
mod locked;
mod read;
mod registry;
mod routes;
mod store;
mod url;

pub use config::Config;
pub use connect::{IntoConfig, connect, connect_lazy, connect_within};
#[doc(inline)]
pub use lock_core::*;
#[cfg(feature = "etcd")]
pub use lock_etcd as etcd;
/// Runs the body of an async function under an exclusive lock, by [`with_lock`](DistributedLockExt::with_lock).
///
/// ```
/// use polylock::{DistributedLock, HoldWatch, connect, locked};
///
/// struct Order {
///     id: u64,
/// }
///
/// #[locked(key = "order:{order.id}", wait = "2s")]
/// async fn pay(
///     locks: &dyn DistributedLock,
///     order: &Order,
///     held: HoldWatch,
/// ) -> Result<String, Box<dyn std::error::Error + Send + Sync>> {
///     Ok(format!("paid {} with token {}", order.id, held.token()))
/// }
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error + Send + Sync>> {
/// let locks = connect("memory://").await?;
/// let paid = pay(&*locks, &Order { id: 42 }).await?;
/// assert!(paid.starts_with("paid 42"));
/// # Ok(())
/// # }
/// ```
///
/// - The function returns a `Result`. Its error is made from [`Error`] if the lock fails or is lost,
///   and from [`Busy`] if another client holds it until the wait ends.
/// - If the lock is lost, the future of the body is dropped before another client can get the lock
///   ([exceptions](DistributedLock#contract)).
/// - An argument `held: HoldWatch` comes from the lock, and callers leave it out. It has the
///   [fencing token](HoldWatch::token).
/// - The body has to be `Send`.
///
/// | option | default | meaning |
/// |---|---|---|
/// | `key` | required | The key, with arguments in braces: `"{id}"`, `"{order.id}"`, `"{page:04}"`. |
/// | `locks` | the argument `locks` | The client, such as `self.locks`. |
/// | `wait` | the client's `request_wait` | Maximum wait, such as `"2s"`; `"0s"` means no wait. |
/// | `ttl` | the client's `ttl` | Time that the hold survives without a renewal. |
/// | `at_least` | `"0s"` | Minimum time that the key stays closed, also after the body has ended. |
/// | `at_most` | no limit | Maximum time that the lock is held. |
/// | `on_busy` | `"error"` | With `"skip"` the function returns `Result<(), E>` or `Result<Option<T>, E>`, and a held lock is `Ok(())` or `Ok(None)`. |
///
/// Durations have the units `ms`, `s`, `m` and `h`. Texts of users in a key may need an escape:
/// `"{a}:{b}"` is the same key for `a = "x:y"` with `b = "z"` as for `a = "x"` with `b = "y:z"`.
///
/// # Cancel safety
///
/// Dropping the future drops the body and releases the lock in the background.
#[cfg(feature = "macros")]
#[doc(inline)]
pub use lock_macros::locked;
#[cfg(feature = "mysql")]
pub use lock_mysql as mysql;
#[cfg(feature = "redis")]
pub use lock_redis as redis;
#[cfg(feature = "zookeeper")]
pub use lock_zookeeper as zookeeper;
#[cfg(feature = "macros")]
pub use locked::{Busy, Skipped};
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
    #[cfg(feature = "macros")]
    #[doc = include_str!("../docs/recipes.md")]
    struct Recipes;
    #[doc = include_str!("../docs/stores/memory.md")]
    struct Memory;
}
