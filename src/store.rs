//! One store of a configuration, from its settings to its connection.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use lock_core::backend::{Backoff, HumanDuration};
use lock_core::{
    Capabilities, DEFAULT_TTL, DistributedLock, Error, ErrorKind, HandOff, Namespace, Result,
};
use tokio::time::{Instant, sleep_until, timeout_at};

use crate::backends::is_built_in;
use crate::configured::{Configured, Defaults};
use crate::fields::{FIELDS, refuse_foreign, refuse_unknown};
use crate::registry::backend::{Backend, BackendOptions};
use crate::url::StoreUrl;
use crate::{Config, Registry};

/// First and longest pause between two attempts to connect.
const PAUSES: [Duration; 2] = [Duration::from_millis(20), Duration::from_secs(1)];

/// One store, whose settings fit its backend. It is not connected.
pub(crate) struct Store {
    backend: Backend,
    options: BackendOptions,
}

impl Store {
    /// Reads the URL of `config` and checks the settings. Settings that `config` and its URL lack
    /// come from `outer`.
    pub(crate) fn new(
        registry: &Registry,
        mut config: Config,
        outer: Option<&Config>,
    ) -> Result<Self> {
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
            config,
        };
        Ok(Self {
            backend: backend.clone(),
            options,
        })
    }

    /// Checks all that can be checked without the store, and returns the capabilities as far as
    /// they are known.
    pub(crate) fn check(&self) -> Result<Capabilities> {
        let capabilities = match &self.backend.check {
            Some(check) => check(&self.options)?,
            None => Capabilities::new("unconnected"),
        };
        // A backend that does not say what it supports may support all lock delays.
        if self.backend.check.is_some() {
            self.check_defaults(&capabilities)?;
        }
        Ok(capabilities)
    }

    /// Connects once.
    pub(crate) async fn connect(&self) -> Result<Arc<dyn DistributedLock>> {
        let locks = (self.backend.connect)(self.options.clone()).await?;
        self.check_defaults(&locks.capabilities())?;
        let config = &self.options.config;
        let locks = match config.hand_off.unwrap_or(HandOff::DEFAULT_BUDGET) {
            Duration::ZERO => locks,
            budget => Arc::new(HandOff::new(locks, budget)),
        };
        let defaults = self.defaults();
        Ok(Arc::new(Configured { locks, defaults }))
    }

    /// Connects, and tries again until `ends` while the store is unavailable.
    pub(crate) async fn connect_until(&self, ends: Instant) -> Result<Arc<dyn DistributedLock>> {
        let begun = Instant::now();
        let [first, longest] = PAUSES;
        let (mut backoff, mut last) = (Backoff::new(first, longest), None);
        loop {
            let error = match timeout_at(ends, self.connect()).await {
                Ok(Err(error)) if error.is_retryable() => error,
                Ok(outcome) => return outcome,
                Err(_) => {
                    // The last attempt was cut short, and the one before it knows more.
                    return Err(last.unwrap_or_else(|| self.not_connected(ends - begun)));
                }
            };
            tracing::debug!(%error, "connecting failed, trying again");
            let next = Instant::now() + backoff.next_pause();
            if next >= ends {
                return Err(error);
            }
            last = Some(error);
            sleep_until(next).await;
        }
    }

    /// Returns the error of a store that was not connected within `limit`.
    pub(crate) fn not_connected(&self, limit: Duration) -> Error {
        let message = format!(
            "not connected within {}: check that the store runs and is reachable",
            HumanDuration(limit)
        );
        let error = Error::new(ErrorKind::Unavailable, message).with_operation("connect");
        match self.servers() {
            Some(servers) => error.with_server(servers.to_owned()),
            None => error,
        }
    }

    pub(crate) fn defaults(&self) -> Defaults {
        Defaults::of(&self.options.config)
    }

    /// Returns the hosts in the URL. Any part of another backend's URL may be a secret.
    fn servers(&self) -> Option<&str> {
        let url = &self.options.url;
        let host = url.location.rsplit('@').next()?.split('/').next()?;
        Some(host).filter(|host| !host.is_empty() && is_built_in(&url.scheme))
    }

    /// Rejects defaults that no request could use, at the connect rather than at the first lock.
    fn check_defaults(&self, capabilities: &Capabilities) -> Result<()> {
        let config = &self.options.config;
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
}

impl fmt::Debug for Store {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(&self.options, f)
    }
}
