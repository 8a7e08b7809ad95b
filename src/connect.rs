//! From a configuration to a lock service: the one place that knows every backend.

use std::sync::Arc;
use std::time::Duration;

use lock_core::{
    DistributedLock, Error, ErrorKind, HandOff, KeeperPlace, MemoryLock, Namespace, Result,
};

use crate::Config;
use crate::configured::Configured;
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
    let namespace = match &config.namespace {
        Some(namespace) => Namespace::new(namespace)?,
        None => Namespace::none(),
    };
    let locks: Arc<dyn DistributedLock> = match url.scheme.as_str() {
        "memory" => memory(&url, &config, &namespace)?,
        "redis" | "rediss" => redis(&url, &config, namespace).await?,
        _ => return Err(unknown_scheme(&url.scheme)),
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

fn memory(
    url: &StoreUrl,
    config: &Config,
    namespace: &Namespace,
) -> Result<Arc<dyn DistributedLock>> {
    url.allow_parameters(&[])?;
    if let Some(setting) = config.tls().first_given() {
        return Err(Error::new(
            ErrorKind::Config,
            format!(
                "{setting} is set, and memory:// never leaves the process: leave it out, or use a store with TLS, such as rediss://"
            ),
        ));
    }
    if !url.location.is_empty() {
        return Err(Error::new(
            ErrorKind::Config,
            "memory:// has no host or path: name a store of its own by memory://?namespace=NAME",
        ));
    }
    if config.keeper == Some(KeeperPlace::Thread) {
        return Err(Error::new(
            ErrorKind::Unsupported,
            "keeper: memory:// keeps its holds on the caller's runtime: leave it out, or write \"caller\"",
        ));
    }
    let store = namespace.as_str().unwrap_or_default();
    Ok(Arc::new(MemoryLock::shared(store)))
}

#[cfg(feature = "redis")]
async fn redis(
    url: &StoreUrl,
    config: &Config,
    namespace: Namespace,
) -> Result<Arc<dyn DistributedLock>> {
    use lock_redis::{RedisConfig, RedisLock};

    url.allow_parameters(&[])?;
    let config = RedisConfig::new(format!("{}://{}", url.scheme, url.location))
        .with_namespace(namespace)
        .with_keeper(config.keeper.unwrap_or_default())
        .with_tls(config.tls());
    Ok(Arc::new(RedisLock::connect(config).await?))
}

#[cfg(not(feature = "redis"))]
async fn redis(
    url: &StoreUrl,
    _config: &Config,
    _namespace: Namespace,
) -> Result<Arc<dyn DistributedLock>> {
    Err(not_compiled_in(&url.scheme, "redis"))
}

#[cfg(not(feature = "redis"))]
fn not_compiled_in(scheme: &str, feature: &str) -> Error {
    Error::new(
        ErrorKind::Config,
        format!(
            "{scheme}:// needs the cargo feature `{feature}`, which is not compiled in: build with `--features {feature}`, or in Cargo.toml: polylock = {{ version = \"{}\", features = [\"{feature}\"] }}",
            env!("CARGO_PKG_VERSION")
        ),
    )
}

fn unknown_scheme(scheme: &str) -> Error {
    Error::new(
        ErrorKind::Config,
        format!("unknown scheme {scheme:?} in the lock url: known are memory, redis, rediss"),
    )
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
