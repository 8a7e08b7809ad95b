//! The registry of backends, by the schemes of their URLs.

pub(crate) mod backend;

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use lock_core::{DistributedLock, Error, ErrorKind, Result};
use tokio::time::Instant;

use crate::Config;

use crate::backends::{built_in, unknown_scheme};
use crate::connect::IntoConfig;
use crate::fields::Field;
use crate::lazy::Lazy;
use crate::registry::backend::Backend;
use crate::routes::Routed;
use crate::store::Store;

/// The longest limit of a connect, within the range of clocks: a year.
const LIMIT_MAX: Duration = Duration::from_secs(365 * 24 * 60 * 60);

/// The backends that URLs can name: backends of this crate, and backends that a program registers.
///
/// A registered backend can be used wherever a URL can: alone, in `[locks.*]` with `[routes]`, or
/// in the environment. Its own settings are in the URL's query, or in the table `settings` next to
/// the URL.
///
/// ```
/// use std::sync::Arc;
/// use polylock::backend::Backend;
/// use polylock::{Config, DistributedLock, DistributedLockExt, MemoryLock, Registry};
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let mut registry = Registry::new();
/// let shelf = Backend::new("shelf", |options| async move {
///     assert_eq!(options.url(), "shelf://left");
///     assert_eq!(options.setting("height"), Some("3"));
///     Ok(Arc::new(MemoryLock::new()) as Arc<dyn DistributedLock>)
/// });
/// registry.register(shelf.with_settings(["height"]))?;
///
/// let locks = registry.connect("shelf://left?ttl=10s&height=3").await?;
/// locks.lock("nightly-report").await?.release().await?;
///
/// let config: Config = toml::from_str(r#"
///     [locks.fast]
///     url = "shelf://left"
///     settings = { height = 3 }
///     [locks.other]
///     url = "memory://"
///     [routes]
///     "coupon/*" = "fast"
///     "*" = "other"
/// "#)?;
/// registry.connect(config).await?.lock("coupon/1").await?.release().await?;
/// # Ok(())
/// # }
/// ```
#[derive(Clone)]
pub struct Registry {
    backends: Vec<Backend>,
}

impl Registry {
    /// Creates a registry with the backends of this crate.
    pub fn new() -> Self {
        Self {
            backends: built_in(),
        }
    }

    /// Adds a backend.
    ///
    /// # Errors
    ///
    /// [`ErrorKind::Config`] for a scheme that is malformed or taken, and for a setting whose name
    /// is malformed or a field of [`Config`](crate::Config).
    pub fn register(&mut self, backend: Backend) -> Result<()> {
        let mut schemes: Vec<&str> = self.schemes().collect();
        for scheme in &backend.schemes {
            if !is_scheme(scheme) {
                return Err(wrong(format!(
                    "scheme {scheme:?} is malformed: write lower-case letters, digits, +, - and ., and a letter first"
                )));
            }
            if schemes.contains(&scheme.as_str()) {
                return Err(wrong(format!(
                    "scheme {scheme:?} is taken: choose another one, since a backend has it already"
                )));
            }
            schemes.push(scheme);
        }
        for name in &backend.settings {
            let is_of_name = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '_';
            if name.is_empty() || !name.chars().all(is_of_name) {
                return Err(wrong(format!(
                    "setting {name:?} is malformed: write lower-case letters, digits and _"
                )));
            }
            if Field::named(name).is_some()
                || ["url", "settings", "locks", "routes"].contains(&name.as_str())
            {
                return Err(wrong(format!(
                    "setting {name:?} is taken: choose another name, since Config has a field of this one"
                )));
            }
        }
        self.backends.push(backend);
        Ok(())
    }

    /// Connects like [`connect`](crate::connect()), including to registered backends.
    ///
    /// # Errors
    ///
    /// The errors of [`connect`](crate::connect()) and of the registered backend.
    ///
    /// # Cancel safety
    ///
    /// Dropping the future closes the connections that it opened, if a registered backend does so.
    pub async fn connect(&self, config: impl IntoConfig) -> Result<Arc<dyn DistributedLock>> {
        self.connect_by(config.into_config(), Store::connect).await
    }

    /// Connects like [`connect_within`](crate::connect_within()), including to registered backends.
    ///
    /// # Errors
    ///
    /// The errors of [`connect_within`](crate::connect_within()) and of the registered backend.
    ///
    /// # Cancel safety
    ///
    /// Dropping the future closes the connections that it opened, if a registered backend does so.
    pub async fn connect_within(
        &self,
        config: impl IntoConfig,
        limit: Duration,
    ) -> Result<Arc<dyn DistributedLock>> {
        let ends = Instant::now() + limit.min(LIMIT_MAX);
        let connect = async |store: &Store| store.connect_until(ends).await;
        self.connect_by(config.into_config(), connect).await
    }

    /// Returns a client that connects when it is first used, like
    /// [`connect_lazy`](crate::connect_lazy()), including registered backends.
    ///
    /// # Errors
    ///
    /// The errors of [`connect_lazy`](crate::connect_lazy()), and of the
    /// [check](Backend::with_check) of the registered backend.
    pub fn connect_lazy(&self, config: impl IntoConfig) -> Result<Arc<dyn DistributedLock>> {
        let config = config.into_config();
        Ok(match has_several_stores(&config) {
            false => Arc::new(Lazy::new(Store::new(self, config, None)?)?),
            true => Arc::new(Routed::read(self, &config)?.connect_lazily()?),
        })
    }

    /// Connects to each store of `config` by `connect`.
    async fn connect_by(
        &self,
        config: Config,
        connect: impl AsyncFn(&Store) -> Result<Arc<dyn DistributedLock>>,
    ) -> Result<Arc<dyn DistributedLock>> {
        match has_several_stores(&config) {
            false => connect(&Store::new(self, config, None)?).await,
            true => Ok(Arc::new(
                Routed::read(self, &config)?.connect(connect).await?,
            )),
        }
    }

    /// Returns the backend of URLs with `scheme`.
    pub(crate) fn backend(&self, scheme: &str) -> Result<&Backend> {
        let has_scheme = |backend: &&Backend| backend.schemes.iter().any(|one| one == scheme);
        self.backends
            .iter()
            .find(has_scheme)
            .ok_or_else(|| unknown_scheme(scheme, self.schemes()))
    }

    fn schemes(&self) -> impl Iterator<Item = &str> {
        let schemes = self.backends.iter().flat_map(|backend| &backend.schemes);
        schemes.map(String::as_str)
    }
}

impl Default for Registry {
    fn default() -> Self {
        Self::new()
    }
}

impl fmt::Debug for Registry {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(&self.backends).finish()
    }
}

fn has_several_stores(config: &Config) -> bool {
    !config.locks.is_empty() || !config.routes.is_empty()
}

fn is_scheme(text: &str) -> bool {
    let is_of_scheme = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || "+-.".contains(c);
    text.starts_with(|c: char| c.is_ascii_lowercase()) && text.chars().all(is_of_scheme)
}

fn wrong(message: String) -> Error {
    Error::new(ErrorKind::Config, message)
}
