//! The floors: the least commands that take and free a key, sent over the backend's client library.
//!
//! A floor has no token, no renewal and no wait, and does not clean up after a lost answer.

#[cfg(feature = "etcd")]
mod etcd;
mod memory;
#[cfg(feature = "mysql")]
mod mysql;
#[cfg(feature = "redis")]
mod redis;
#[cfg(feature = "zookeeper")]
mod zookeeper;

pub(crate) use memory::SharedMutex;

use super::laps::Lap;
use super::store::Store;
use crate::problem::Problem;

/// An open floor; [`finish`](Self::finish) clears it.
pub(crate) enum Floor {
    Memory,
    #[cfg(feature = "etcd")]
    Etcd(Box<etcd::Floor>),
    #[cfg(feature = "mysql")]
    MySql(mysql::Floor),
    #[cfg(feature = "redis")]
    Redis(redis::Floor),
    #[cfg(feature = "zookeeper")]
    ZooKeeper(zookeeper::Floor),
}

/// The raw lock of one task.
pub(crate) enum RawLock {
    Memory(SharedMutex),
    #[cfg(feature = "etcd")]
    Etcd(Box<etcd::RawLock>),
    #[cfg(feature = "mysql")]
    MySql(mysql::RawLock),
    #[cfg(feature = "redis")]
    Redis(redis::RawLock),
    #[cfg(feature = "zookeeper")]
    ZooKeeper(zookeeper::RawLock),
}

impl Floor {
    /// Opens the floor of `store`; `None` over TLS, where the backends open their own connections.
    pub(crate) async fn open(store: &Store) -> Result<Option<Self>, Problem> {
        let location = store.location();
        Ok(Some(match location.scheme.as_str() {
            "memory" => Self::Memory,
            #[cfg(feature = "etcd")]
            "etcd" => Self::Etcd(Box::new(etcd::Floor::open(&location).await?)),
            #[cfg(feature = "mysql")]
            "mysql" => Self::MySql(mysql::Floor::open(&location).await?),
            #[cfg(feature = "redis")]
            "redis" => Self::Redis(redis::Floor::open(&location).await?),
            #[cfg(feature = "zookeeper")]
            "zookeeper" => Self::ZooKeeper(zookeeper::Floor::open(&location).await?),
            _ => return Ok(None),
        }))
    }

    /// Returns the commands, one line per round trip.
    pub(crate) fn commands(&self) -> Vec<String> {
        match self {
            Self::Memory => vec!["tokio::sync::Mutex: lock, drop the guard".to_owned()],
            #[cfg(feature = "etcd")]
            Self::Etcd(_) => etcd::Floor::commands(),
            #[cfg(feature = "mysql")]
            Self::MySql(floor) => floor.commands(),
            #[cfg(feature = "redis")]
            Self::Redis(_) => redis::Floor::commands(),
            #[cfg(feature = "zookeeper")]
            Self::ZooKeeper(_) => zookeeper::Floor::commands(),
        }
    }

    /// Creates a lock on `key`, which no other task uses.
    pub(crate) async fn lock(&self, key: &str) -> Result<RawLock, Problem> {
        Ok(match self {
            Self::Memory => RawLock::Memory(SharedMutex::default()),
            #[cfg(feature = "etcd")]
            Self::Etcd(floor) => RawLock::Etcd(Box::new(floor.lock(key))),
            #[cfg(feature = "mysql")]
            Self::MySql(floor) => RawLock::MySql(floor.lock(key).await?),
            #[cfg(feature = "redis")]
            Self::Redis(floor) => RawLock::Redis(floor.lock(key)),
            #[cfg(feature = "zookeeper")]
            Self::ZooKeeper(floor) => RawLock::ZooKeeper(floor.lock(key).await?),
        })
    }

    /// Removes the keys that the locks have left on the store.
    pub(crate) async fn finish(self) -> Result<(), Problem> {
        match self {
            Self::Memory => Ok(()),
            #[cfg(feature = "etcd")]
            Self::Etcd(floor) => floor.finish().await,
            #[cfg(feature = "mysql")]
            Self::MySql(floor) => Box::pin(floor.finish()).await,
            #[cfg(feature = "redis")]
            Self::Redis(_) => Ok(()),
            #[cfg(feature = "zookeeper")]
            Self::ZooKeeper(floor) => floor.finish().await,
        }
    }
}

impl Lap for RawLock {
    async fn lap(&mut self) -> Result<(), Problem> {
        match self {
            Self::Memory(mutex) => mutex.lap().await,
            #[cfg(feature = "etcd")]
            Self::Etcd(lock) => lock.lock_and_release().await,
            #[cfg(feature = "mysql")]
            Self::MySql(lock) => lock.lock_and_release().await,
            #[cfg(feature = "redis")]
            Self::Redis(lock) => lock.lock_and_release().await,
            #[cfg(feature = "zookeeper")]
            Self::ZooKeeper(lock) => lock.lock_and_release().await,
        }
    }
}

#[cfg(any(feature = "etcd", feature = "mysql", feature = "redis"))]
fn was_not_free() -> Problem {
    "a raw lock was not free, although nobody else knows its name".into()
}
