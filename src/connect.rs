//! Connecting to the stores of a configuration: now, within a limit, or at the first use.

use std::sync::Arc;
use std::time::Duration;

use lock_core::{DistributedLock, Result};

use crate::{Config, Registry};

/// Connects to the store of `config`, a URL such as `"redis://host:6379"` or a [`Config`].
///
/// A [`Config`] may also name several stores and the keys of each. A [`Registry`] connects to
/// backends of other crates, too. Connections to `memory://` with the same namespace share one
/// store within the process.
///
/// ```
/// use polylock::DistributedLockExt;
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> polylock::Result<()> {
/// let locks = polylock::connect("memory://?ttl=10s").await?;
/// let guard = locks.lock("nightly-report").await?;
/// # drop(guard);
/// # Ok(())
/// # }
/// ```
///
/// # Errors
///
/// - [`Config`](crate::ErrorKind::Config) for an invalid URL or setting, or if the backend's cargo feature
///   is not compiled in.
/// - [`Unavailable`](crate::ErrorKind::Unavailable) if the store does not answer.
/// - [`Denied`](crate::ErrorKind::Denied) if the store rejects the client.
///
/// # Cancel safety
///
/// Dropping the future closes the connections that it opened.
pub async fn connect(config: impl IntoConfig) -> Result<Arc<dyn DistributedLock>> {
    Registry::new().connect(config).await
}

/// Connects like [`connect`], and tries again until `limit` while the store is unavailable.
///
/// For a service that starts before its store. With several stores, all of them share the limit.
///
/// ```
/// use std::time::Duration;
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> polylock::Result<()> {
/// let locks = polylock::connect_within("memory://", Duration::from_secs(30)).await?;
/// # drop(locks);
/// # Ok(())
/// # }
/// ```
///
/// # Errors
///
/// The errors of [`connect`]: [`Unavailable`](crate::ErrorKind::Unavailable) once the limit is over, with
/// the server and the reason of the last attempt, and all others at once.
///
/// # Cancel safety
///
/// Dropping the future closes the connections that it opened.
pub async fn connect_within(
    config: impl IntoConfig,
    limit: Duration,
) -> Result<Arc<dyn DistributedLock>> {
    Registry::new().connect_within(config, limit).await
}

/// Returns a client at once, which connects when it is first used.
///
/// - The first request connects. Requests that come meanwhile share the attempt, and it goes on if
///   they are dropped.
/// - While the store cannot be reached, requests behave as in an outage: a try fails with
///   [`Unavailable`](crate::ErrorKind::Unavailable), a wait connects again until it ends, and a wait
///   without a limit fails after 30 seconds. The next request tries again.
/// - [`capabilities`](DistributedLock::capabilities) are those that the configuration determines,
///   until the client is connected: features that depend on the server are absent, and ranges are
///   the widest that any server has. A request that the server does not support then fails with
///   [`Unsupported`](crate::ErrorKind::Unsupported) at the server.
/// - [`shutdown`](DistributedLock::shutdown) ends a pending attempt, too.
/// - With several stores, each connects when the first of its keys is used.
///
/// ```
/// use polylock::DistributedLockExt;
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> polylock::Result<()> {
/// let locks = polylock::connect_lazy("memory://?ttl=10s")?;
/// let guard = locks.lock("nightly-report").await?;
/// # drop(guard);
/// # Ok(())
/// # }
/// ```
///
/// # Errors
///
/// [`Config`](crate::ErrorKind::Config) and [`Unsupported`](crate::ErrorKind::Unsupported) for what is wrong
/// without asking the store. Requests return what the store objects to.
pub fn connect_lazy(config: impl IntoConfig) -> Result<Arc<dyn DistributedLock>> {
    Registry::new().connect_lazy(config)
}

/// A value that [`connect`] accepts: a URL as text, or a [`Config`].
///
/// ```
/// use polylock::{Config, IntoConfig};
///
/// assert_eq!("memory://".into_config(), Config::new("memory://"));
/// ```
pub trait IntoConfig {
    /// Converts the value into a configuration.
    fn into_config(self) -> Config;
}

impl IntoConfig for Config {
    fn into_config(self) -> Config {
        self
    }
}

impl IntoConfig for &Config {
    fn into_config(self) -> Config {
        self.clone()
    }
}

impl IntoConfig for &str {
    fn into_config(self) -> Config {
        Config::new(self)
    }
}

impl IntoConfig for String {
    fn into_config(self) -> Config {
        Config::new(self)
    }
}

impl IntoConfig for &String {
    fn into_config(self) -> Config {
        Config::new(self)
    }
}
