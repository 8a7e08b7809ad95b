//! Several stores behind one lock service, selected by key.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use futures_util::future::{join_all, try_join_all};
use lock_core::{
    Capabilities, DistributedLock, Error, ErrorKind, Health, KeyInfo, LockGuard, LockKey,
    LockRequest, Result, TokenOrder,
};

use crate::lazy::Lazy;
use crate::store::Store;
use crate::{Config, Registry};

/// The stores of a configuration by name, with the routes from keys to stores.
///
/// `S` is a connected store, or one that is not connected.
#[derive(Debug)]
pub(crate) struct Routed<S = Arc<dyn DistributedLock>> {
    stores: BTreeMap<String, S>,
    routes: Vec<Route>,
}

/// A route from keys to a store.
#[derive(Debug)]
struct Route {
    /// The whole key, or its prefix.
    begins: String,
    is_whole: bool,
    store: String,
}

impl Routed<Store> {
    /// Reads the routes, and the settings of every store that has one.
    pub(crate) fn read(registry: &Registry, config: &Config) -> Result<Self> {
        if !config.url.is_empty() {
            return Err(wrong(
                "a url beside [locks] and [routes]: write it into a [locks.NAME]",
            ));
        }
        let mut routes = Vec::new();
        for (keys, store) in &config.routes {
            if !config.locks.contains_key(store) {
                return Err(unknown_store(keys, store, config));
            }
            routes.push(Route::read(keys, store)?);
        }
        if routes.is_empty() {
            return Err(wrong(
                "no key leads to [locks]: write \"*\" = \"NAME\" into [routes], with one of their names",
            ));
        }
        let mut stores = BTreeMap::new();
        for (name, one) in &config.locks {
            if !one.locks.is_empty() || !one.routes.is_empty() {
                return Err(wrong(format!(
                    "locks.{name}: it is one store: write locks and routes outside of it"
                )));
            }
            if routes.iter().any(|route| route.store == *name) {
                let store = Store::new(registry, one.clone(), Some(config));
                stores.insert(name.clone(), store.map_err(|error| of(name, error))?);
            }
        }
        Ok(Self { stores, routes })
    }

    /// Connects all stores at once by `connect`.
    pub(crate) async fn connect(
        self,
        connect: impl AsyncFn(&Store) -> Result<Arc<dyn DistributedLock>>,
    ) -> Result<Routed> {
        let connecting = self.stores.iter().map(async |(name, store)| {
            let connected = connect(store).await;
            let connected = connected.map_err(|error| of(name, error))?;
            Ok::<_, Error>((name.clone(), connected))
        });
        Ok(Routed {
            stores: try_join_all(connecting).await?.into_iter().collect(),
            routes: self.routes,
        })
    }

    /// Lets each store connect when it is first used.
    pub(crate) fn connect_lazily(self) -> Result<Routed> {
        let mut stores = BTreeMap::<_, Arc<dyn DistributedLock>>::new();
        for (name, store) in self.stores {
            let lazy = Lazy::new(store).map_err(|error| of(&name, error))?;
            stores.insert(name, Arc::new(lazy));
        }
        Ok(Routed {
            stores,
            routes: self.routes,
        })
    }
}

impl Routed {
    fn store(&self, key: &LockKey) -> Result<&Arc<dyn DistributedLock>> {
        let fits = self.routes.iter().filter(|route| route.fits(key.as_str()));
        let route = fits.max_by_key(|route| (route.is_whole, route.begins.len()));
        let Some(route) = route else {
            return Err(
                wrong("no route fits this key: add one, or \"*\" for all other keys").with_key(key),
            );
        };
        Ok(&self.stores[&route.store])
    }
}

impl Route {
    fn read(keys: &str, store: &str) -> Result<Self> {
        let (begins, is_whole) = match keys.strip_suffix('*') {
            Some(begins) => (begins, false),
            None => (keys, true),
        };
        if begins.contains('*') {
            return Err(wrong(format!(
                "routes: {keys:?} has a * that is not at its end"
            )));
        }
        Ok(Self {
            begins: begins.to_owned(),
            is_whole,
            store: store.to_owned(),
        })
    }

    fn fits(&self, key: &str) -> bool {
        match self.is_whole {
            true => key == self.begins,
            false => key.starts_with(&self.begins),
        }
    }
}

#[async_trait]
impl DistributedLock for Routed {
    /// Returns the capabilities that all stores have.
    fn capabilities(&self) -> Capabilities {
        let all: Vec<_> = self
            .stores
            .values()
            .map(|store| store.capabilities())
            .collect();
        let ttls = || all.iter().map(|one| one.ttl.clone());
        let longest_least = ttls().map(|ttl| *ttl.start()).max();
        let shortest_most = ttls().map(|ttl| *ttl.end()).min();
        let mut common = Capabilities::new("routes");
        common.shared = all.iter().all(|one| one.shared);
        common.permits = all.iter().all(|one| one.permits);
        common.upgrades = all.iter().all(|one| one.upgrades);
        common.slots = all.iter().all(|one| one.slots);
        common.fair = all.iter().all(|one| one.fair);
        common.push = all.iter().all(|one| one.push);
        common.inspect = all.iter().all(|one| one.inspect);
        common.tokens = least(all.iter().map(|one| one.tokens));
        common.longest_with_delay = all
            .iter()
            .map(|one| one.longest_with_delay)
            .min()
            .unwrap_or_default();
        let min_holds = all.iter().map(|one| one.longest_min_hold);
        common.longest_min_hold = min_holds.min().unwrap_or_default();
        if let Some((least, most)) = longest_least.zip(shortest_most) {
            common.ttl = least..=most;
        }
        common
    }

    async fn acquire(&self, request: LockRequest) -> Result<Option<LockGuard>> {
        self.store(&request.key)?.acquire(request).await
    }

    /// Takes together what goes to one store.
    async fn acquire_together(&self, requests: &[LockRequest]) -> Result<Option<Vec<LockGuard>>> {
        let mut store: Option<&Arc<dyn DistributedLock>> = None;
        for request in requests {
            let its = self.store(&request.key)?;
            if store.is_some_and(|store| !std::ptr::eq(store, its)) {
                return Ok(None);
            }
            store = Some(its);
        }
        match store {
            Some(store) => store.acquire_together(requests).await,
            None => Ok(None),
        }
    }

    /// Returns the health of all stores together, with that of each.
    async fn health(&self) -> Health {
        let asking = self.stores.iter().map(async |(name, store)| {
            let mut health = store.health().await;
            health.latency = health.latency.map_err(|error| of(name, error));
            (name.clone(), health)
        });
        Health::of_all(join_all(asking).await.into_iter().collect())
    }

    async fn inspect_key(&self, key: &LockKey) -> Result<KeyInfo> {
        self.store(key)?.inspect_key(key).await
    }

    async fn shutdown(&self, within: Duration) -> Result<()> {
        let shutdowns = self.stores.iter().map(async |(name, store)| {
            let outcome = store.shutdown(within).await;
            outcome.map_err(|error| of(name, error))
        });
        join_all(shutdowns).await.into_iter().collect()
    }
}

/// Returns the weakest order among `promises`.
fn least(promises: impl Iterator<Item = TokenOrder> + Clone) -> TokenOrder {
    let weakest_first = [TokenOrder::Process, TokenOrder::ServerClock];
    let found = weakest_first
        .into_iter()
        .find(|weak| promises.clone().any(|promise| promise == *weak));
    found.unwrap_or(TokenOrder::Always)
}

fn wrong(message: impl Into<String>) -> Error {
    Error::new(ErrorKind::Config, message.into())
}

fn unknown_store(keys: &str, store: &str, config: &Config) -> Error {
    let known: Vec<&str> = config.locks.keys().map(String::as_str).collect();
    wrong(format!(
        "routes: {keys:?} leads to {store:?}, which is not among the locks: known are {}",
        known.join(", ")
    ))
}

/// Adds the name of the store to an error.
fn of(name: &str, error: Error) -> Error {
    Error::new(error.kind(), format!("locks.{name}: {error}"))
}
