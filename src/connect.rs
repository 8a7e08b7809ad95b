//! From a configuration to a lock service: the one place that knows every backend.

use std::sync::Arc;
use std::time::Duration;

use lock_core::{DistributedLock, Error, ErrorKind, HandOff, Namespace, Result};

use crate::Config;
#[cfg(not(all(feature = "mysql", feature = "redis")))]
use crate::backends::not_compiled_in;
use crate::backends::{self, Backend};
use crate::configured::Configured;
use crate::fields::refuse_foreign;
use crate::url::StoreUrl;

/// Connects to the store that `config` names: a URL such as `"redis://host:6379"`, or a [`Config`].
///
/// Two connections to `memory://` with the same namespace share one store within the process.
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
/// [`Config`](ErrorKind::Config) for a URL or setting that is wrong, also when the backend's cargo
/// feature is not compiled in; [`Unavailable`](ErrorKind::Unavailable) when the store does not
/// answer; [`Denied`](ErrorKind::Denied) when it refuses the client.
///
/// # Cancel safety
///
/// Dropping the future closes what it had opened.
pub async fn connect(config: impl IntoConfig) -> Result<Arc<dyn DistributedLock>> {
    let mut config = config.into_config();
    let url = StoreUrl::take_from(&mut config)?;
    let backend = Backend::of(&url.scheme)?;
    url.refuse_unknown(backend)?;
    refuse_foreign(&config, backend, &url.scheme)?;
    let namespace = match &config.namespace {
        Some(namespace) => Namespace::new(namespace)?,
        None => Namespace::none(),
    };
    let locks = match backend {
        Backend::Memory => backends::memory::connect(&url, &config, &namespace)?,
        #[cfg(feature = "mysql")]
        Backend::MySql => backends::mysql::connect(&url, &config, namespace).await?,
        #[cfg(feature = "redis")]
        Backend::Redis => backends::redis::connect(&url, &config, namespace).await?,
        #[cfg(not(all(feature = "mysql", feature = "redis")))]
        missing => return Err(not_compiled_in(missing, &url.scheme)),
    };
    check_ttl(&config, &*locks)?;
    let locks = match config.hand_off.unwrap_or(HandOff::DEFAULT_BUDGET) {
        Duration::ZERO => locks,
        budget => Arc::new(HandOff::new(locks, budget)),
    };
    Ok(Arc::new(Configured {
        locks,
        ttl: config.ttl,
        wait: config.wait,
    }))
}

/// What [`connect`] takes: a URL as text, or a [`Config`].
pub trait IntoConfig {
    /// The configuration it stands for.
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

/// A default ttl that no request could use is better told now than at the first lock.
fn check_ttl(config: &Config, locks: &dyn DistributedLock) -> Result<()> {
    let capabilities = locks.capabilities();
    match config.ttl {
        Some(ttl) if !capabilities.ttl.contains(&ttl) => Err(Error::new(
            ErrorKind::Unsupported,
            format!(
                "ttl: {ttl:?} cannot be had on {}: choose one from {:?} to {:?}",
                capabilities.backend,
                capabilities.ttl.start(),
                capabilities.ttl.end()
            ),
        )),
        Some(_) | None => Ok(()),
    }
}
