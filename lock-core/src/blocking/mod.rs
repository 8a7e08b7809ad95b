//! Locks for threads without async, with the words of the async API.
//!
//! A [`Client`] wraps any [`DistributedLock`](crate::DistributedLock). Each call blocks its thread
//! until it is done. All async work runs on a thread of this process, `polylock-calls`, which the
//! first client starts:
//!
//! - No runtime is needed. Inside of one, a call neither panics nor uses that runtime, and guards
//!   outlive it.
//! - Guards outlive their client, and are renewed whatever their own thread does.
//! - The program ends when `main` returns, also with clients and guards. The ttl then frees keys
//!   that were not released.
//!
//! ```
//! use std::sync::Arc;
//! use lock_core::MemoryLock;
//! use lock_core::blocking::Client;
//!
//! # fn main() -> lock_core::Result<()> {
//! let locks = Client::new(Arc::new(MemoryLock::new()))?;
//! let guard = locks.lock("nightly-report")?;
//! assert!(guard.is_held());
//! assert!(locks.try_lock("nightly-report")?.is_none());
//! guard.release()?;
//! # Ok(())
//! # }
//! ```
//!
//! # Waits that end
//!
//! No other thread and no signal can end a call that waits. Where that matters, use the methods
//! with a limit, such as [`Client::lock_within`], and decide after each of them whether to go on.
//! [`Client::shutdown`] from another thread ends all waits of a client.
//!
//! # In async code
//!
//! A call in async code blocks a worker of the runtime, and the tasks on it, for as long as the
//! call takes. If one of these tasks has the lock, the call waits for ever. So call in
//! `spawn_blocking`, or use the async API with the same store: its guards and these exclude each
//! other.
//!
//! # Forked processes
//!
//! A forked process has none of its parent's threads. There, calls on the parent's clients and
//! guards fail with [`Config`](crate::ErrorKind::Config). New clients work.

mod client;
mod guard;
mod runtime;
mod set;

pub use self::client::Client;
pub use self::guard::LockGuard;
pub use self::set::LockSet;
