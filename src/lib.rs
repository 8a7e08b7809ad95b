#![doc = include_str!("../README.md")]

mod backends;
mod config;
mod configured;
mod connect;
mod deserialize;
mod environment;
mod fields;
mod read;
mod registry;
mod routes;
mod url;

pub use config::Config;
pub use connect::{IntoConfig, connect};
#[doc(inline)]
pub use lock_core::*;
#[cfg(feature = "etcd")]
pub use lock_etcd as etcd;
#[cfg(feature = "mysql")]
pub use lock_mysql as mysql;
#[cfg(feature = "redis")]
pub use lock_redis as redis;
#[cfg(feature = "zookeeper")]
pub use lock_zookeeper as zookeeper;
pub use registry::Registry;

/// Traits and parts for authors of a backend, and its registration in a [`Registry`].
pub mod backend {
    #[doc(inline)]
    pub use lock_core::backend::*;

    pub use crate::registry::backend::{Backend, BackendOptions};
}
