//! A kind of store: the schemes of its URLs, its settings, and its connect function.

use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use lock_core::{Capabilities, DistributedLock, KeeperMode, Namespace, Result, Tls};

use crate::url::StoreUrl;
use crate::{Config, read};

type Check = Arc<dyn Fn(&BackendOptions) -> Result<Capabilities> + Send + Sync>;
type Connecting = Pin<Box<dyn Future<Output = Result<Arc<dyn DistributedLock>>> + Send>>;

/// A kind of store, as registered in a [`Registry`](crate::Registry).
///
/// ```
/// use std::sync::Arc;
/// use std::time::Duration;
/// use polylock::backend::{Backend, BackendOptions};
/// use polylock::{DistributedLock, MemoryLock, Result};
///
/// async fn connect(options: BackendOptions) -> Result<Arc<dyn DistributedLock>> {
///     let poll = options.duration("poll")?.unwrap_or(Duration::from_millis(20));
///     println!("{} is asked every {poll:?}", options.location());
///     Ok(Arc::new(MemoryLock::new()))
/// }
///
/// let backend = Backend::new("shelf", connect).with_settings(["poll"]);
/// ```
#[derive(Clone)]
pub struct Backend {
    pub(crate) schemes: Vec<String>,
    pub(crate) settings: Vec<String>,
    pub(crate) has_tls: bool,
    pub(crate) check: Option<Check>,
    pub(crate) connect: Arc<dyn Fn(BackendOptions) -> Connecting + Send + Sync>,
}

impl Backend {
    /// Creates a backend for URLs with `scheme://`, which `connect` connects to.
    ///
    /// `connect` has to use or reject the [namespace](BackendOptions::namespace) and the
    /// [keeper](BackendOptions::keeper) of its options. Its errors must not repeat the URL.
    pub fn new<C, F>(scheme: impl Into<String>, connect: C) -> Self
    where
        C: Fn(BackendOptions) -> F + Send + Sync + 'static,
        F: Future<Output = Result<Arc<dyn DistributedLock>>> + Send + 'static,
    {
        Self {
            schemes: vec![scheme.into()],
            settings: Vec::new(),
            has_tls: false,
            check: None,
            connect: Arc::new(move |options| Box::pin(connect(options))),
        }
    }

    /// Adds another scheme for the backend's URLs.
    #[must_use]
    pub fn with_scheme(mut self, scheme: impl Into<String>) -> Self {
        self.schemes.push(scheme.into());
        self
    }

    /// Adds settings by name. Their values are text; unknown settings are rejected.
    #[must_use]
    pub fn with_settings(mut self, names: impl IntoIterator<Item: Into<String>>) -> Self {
        self.settings.extend(names.into_iter().map(Into::into));
        self
    }

    /// Checks the options before a [lazy](crate::connect_lazy()) connect.
    ///
    /// `check` connects nowhere. It returns the capabilities as far as the options determine them:
    /// without features that depend on the store, and with the widest ranges that a store may have.
    /// Without a check, a lazy client declares exclusive locks only until it is connected.
    #[must_use]
    pub fn with_check(
        mut self,
        check: impl Fn(&BackendOptions) -> Result<Capabilities> + Send + Sync + 'static,
    ) -> Self {
        self.check = Some(Arc::new(check));
        self
    }

    /// Accepts the settings `tls_ca`, `tls_cert` and `tls_key`, which are rejected otherwise.
    #[must_use]
    pub fn with_tls(mut self) -> Self {
        self.has_tls = true;
        self
    }
}

impl fmt::Debug for Backend {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Backend")
            .field("schemes", &self.schemes)
            .field("settings", &self.settings)
            .field("has_tls", &self.has_tls)
            .finish_non_exhaustive()
    }
}

/// The part of a configuration that concerns one backend.
///
/// The registry itself applies ttl, waits, lock delay and hand-off, so these are not included.
///
/// ```
/// use polylock::backend::BackendOptions;
/// use polylock::Result;
///
/// fn address(options: &BackendOptions) -> Result<String> {
///     let datacenter = options.setting("datacenter").unwrap_or("dc1");
///     Ok(format!("{}/{datacenter}", options.location()))
/// }
/// ```
#[derive(Clone)]
pub struct BackendOptions {
    pub(crate) url: StoreUrl,
    pub(crate) namespace: Namespace,
    pub(crate) config: Config,
}

impl BackendOptions {
    /// Returns the URL without its query, with the scheme in lower case.
    pub fn url(&self) -> String {
        format!("{}://{}", self.url.scheme, self.url.location)
    }

    /// Returns the URL's scheme in lower case, `redis` of `redis://host`.
    pub fn scheme(&self) -> &str {
        &self.url.scheme
    }

    /// Returns the part between `://` and the query, with its `%` codes.
    pub fn location(&self) -> &str {
        &self.url.location
    }

    /// Returns the prefix of every key, which separates deployments on one store.
    pub fn namespace(&self) -> Namespace {
        self.namespace.clone()
    }

    /// Returns the runtime that renews holds; `None` for the backend's default.
    pub fn keeper(&self) -> Option<KeeperMode> {
        self.config.keeper
    }

    /// Returns the TLS settings; empty unless the backend [accepts them](Backend::with_tls).
    pub fn tls(&self) -> Tls {
        let mut tls = Tls::new();
        tls.ca.clone_from(&self.config.tls_ca);
        tls.cert.clone_from(&self.config.tls_cert);
        tls.key.clone_from(&self.config.tls_key);
        tls
    }

    /// Returns the backend's own setting `name` as text; `None` if it is not set.
    pub fn setting(&self, name: &str) -> Option<&str> {
        self.config.settings.get(name).map(String::as_str)
    }

    /// Returns the backend's own setting `name` as a duration; `None` if it is not set.
    ///
    /// # Errors
    ///
    /// [`Config`](lock_core::ErrorKind::Config) unless the value consists of numbers with units,
    /// such as `500ms` or `1m 30s`.
    pub fn duration(&self, name: &str) -> Result<Option<Duration>> {
        let text = self.setting(name);
        text.map(|text| read::duration(name, text)).transpose()
    }
}

impl fmt::Debug for BackendOptions {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("BackendOptions").field(&self.config).finish()
    }
}
