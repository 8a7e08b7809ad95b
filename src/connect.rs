//! Connecting to the stores of a configuration.

use std::sync::Arc;
use std::time::Duration;

use lock_core::backend::HumanDuration;
use lock_core::{
    Capabilities, DEFAULT_TTL, DistributedLock, Error, ErrorKind, HandOff, Namespace, Result,
};

use crate::configured::Configured;
use crate::fields::{FIELDS, refuse_foreign, refuse_unknown};
use crate::registry::backend::BackendOptions;
use crate::url::StoreUrl;
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
/// - [`Config`](ErrorKind::Config) for an invalid URL or setting, or if the backend's cargo feature
///   is not compiled in.
/// - [`Unavailable`](ErrorKind::Unavailable) if the store does not answer.
/// - [`Denied`](ErrorKind::Denied) if the store rejects the client.
///
/// # Cancel safety
///
/// Dropping the future closes the connections that it opened.
pub async fn connect(config: impl IntoConfig) -> Result<Arc<dyn DistributedLock>> {
    Registry::new().connect(config).await
}

/// Connects to the single store of `config`. Settings that `config` and its URL lack come from
/// `outer`.
pub(crate) async fn connect_to_one(
    registry: &Registry,
    mut config: Config,
    outer: Option<&Config>,
) -> Result<Arc<dyn DistributedLock>> {
    let url = StoreUrl::take_from(&mut config)?;
    if let Some(outer) = outer {
        FIELDS
            .iter()
            .for_each(|field| field.inherit(&mut config, outer));
        for (name, value) in &outer.settings {
            let setting = config.settings.entry(name.clone());
            setting.or_insert_with(|| value.clone());
        }
    }
    let backend = registry.backend(&url.scheme)?;
    refuse_unknown(&config, backend, &url)?;
    refuse_foreign(&config, registry, backend, &url.scheme)?;
    let namespace = match &config.namespace {
        Some(namespace) => Namespace::new(namespace)?,
        None => Namespace::none(),
    };
    let options = BackendOptions {
        url,
        namespace,
        config: config.clone(),
    };
    let locks = (backend.connect)(options).await?;
    check_defaults(&config, &locks.capabilities())?;
    let locks = match config.hand_off.unwrap_or(HandOff::DEFAULT_BUDGET) {
        Duration::ZERO => locks,
        budget => Arc::new(HandOff::new(locks, budget)),
    };
    Ok(Arc::new(Configured {
        locks,
        ttl: config.ttl,
        request_wait: config.request_wait,
        lock_delay: config.lock_delay,
    }))
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

/// Rejects defaults that no request could use, at the connect rather than at the first lock.
fn check_defaults(config: &Config, capabilities: &Capabilities) -> Result<()> {
    let (least, most) = (capabilities.ttl.start(), capabilities.ttl.end());
    let backend = capabilities.backend;
    if let Some(ttl) = config.ttl.filter(|ttl| !capabilities.ttl.contains(ttl)) {
        let message = format!(
            "ttl {} is out of range for {backend}: choose one from {} to {}",
            HumanDuration(ttl),
            HumanDuration(*least),
            HumanDuration(*most)
        );
        return Err(Error::new(ErrorKind::Unsupported, message));
    }
    let ttl = config.ttl.unwrap_or(DEFAULT_TTL);
    capabilities.check_lock_delay(ttl, config.lock_delay.unwrap_or_default())
}
