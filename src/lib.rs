#![doc = include_str!("../README.md")]

mod config;
mod configured;
mod connect;
mod duration;
mod environment;
mod keeper;
mod url;

pub use config::Config;
pub use connect::{IntoConfig, connect};
#[doc(inline)]
pub use lock_core::*;
#[cfg(feature = "redis")]
pub use lock_redis as redis;
