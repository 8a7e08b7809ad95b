#![doc = include_str!("../README.md")]

mod backends;
mod config;
mod configured;
mod connect;
mod duration;
mod environment;
mod fields;
mod keeper;
mod mysql_settings;
mod scalar;
mod url;

pub use config::Config;
pub use connect::{IntoConfig, connect};
#[doc(inline)]
pub use lock_core::*;
#[cfg(feature = "mysql")]
pub use lock_mysql as mysql;
#[cfg(feature = "redis")]
pub use lock_redis as redis;
pub use mysql_settings::HoldAs;
