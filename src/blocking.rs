//! Locks for threads without async, with the words of the async API.
//!
//! [`connect`] opens a [`Client`]. Each call blocks its thread until it is done, and works outside
//! of a runtime as well as inside of one. Guards are renewed by a thread of the library, so they
//! outlive the runtime and the client that made them. The program ends when `main` returns, also
//! with clients and guards.
//!
//! ```
//! use std::time::Duration;
//! use polylock::blocking;
//!
//! # fn main() -> polylock::Result<()> {
//! let locks = blocking::connect("memory://")?;
//! if let Some(guard) = locks.lock_within("import", Duration::from_secs(2))? {
//!     println!("importing with token {}", guard.token());
//!     guard.release()?;
//! }
//! # Ok(())
//! # }
//! ```
//!
//! Nothing but [`Client::shutdown`] ends a call that waits for a lock, so most programs want the
//! methods with a limit. In async code the async API is the better choice: a blocking call there
//! holds up its worker and the other tasks on it. [`lock_core::blocking`] has more on this, and on
//! forked processes.

#[doc(inline)]
pub use lock_core::blocking::*;

use lock_core::Result;

use crate::IntoConfig;

/// Connects to the store of `config` like the async [`connect`](crate::connect()), and blocks until
/// it is connected.
///
/// It can be called anywhere: outside of a runtime, in `spawn_blocking`, and in async code, whose
/// worker it blocks. For backends of other crates, pass the future of
/// [`Registry::connect`](crate::Registry::connect) to [`Client::connect`].
///
/// ```
/// # fn main() -> polylock::Result<()> {
/// let locks = polylock::blocking::connect("memory://?ttl=10s")?;
/// let guard = locks.lock("nightly-report")?;
/// guard.release()?;
/// # Ok(())
/// # }
/// ```
///
/// # Errors
///
/// - The errors of the async [`connect`](crate::connect()).
/// - [`Backend`](crate::ErrorKind::Backend) if the operating system cannot start a thread.
pub fn connect(config: impl IntoConfig) -> Result<Client> {
    let config = config.into_config();
    Client::connect(async move { crate::connect(config).await })
}
