//! polylock on Redis: one server, all three modes, waiters woken by push.
//!
//! An exclusive lock is the plain keys `SET key owner PX ttl` that other lock clients use, so
//! either excludes the other. Shared and permit holds are a sorted set at the same key, each holder
//! with an expiry of its own by the server's clock.
//!
//! A client keeps two kinds of connections. A *command* connection takes and releases; there is one
//! on each runtime that acquires, which saves a hop between threads. The *background* connection
//! renews, releases as a last resort, and is told by the server when a key changes that a waiter
//! waits for or holds; it lives at the client's
//! [`KeeperRuntime`](lock_core::backend::KeeperRuntime).
//!
//! With the cargo feature `tls`, `rediss://` URLs connect over TLS, the server always verified: by
//! rustls with the aws-lc-rs provider, which is handed over explicitly, so that it does not matter
//! what else an application has compiled in.
//!
//! One server cannot promise this: a replica that takes over may not have seen the last grants.
//! Fencing tokens keep growing over that, since they are raised to the server's clock on every new
//! connection, so a resource that checks them stays safe. That does not help where the data goes
//! back in time under connections that stay open: a counter that is restored in place, or a master
//! that is made a replica of a stale one and back.

mod acquire;
mod client;
mod commands;
mod config;
mod connection;
mod error;
mod keys;
mod lease_store;
mod lock;
mod notifications;
mod server_checks;
mod wake_rate_limit;

pub use config::RedisConfig;
pub use lock::RedisLock;
/// The driver, with the feature `driver`. Its changes are no breaking changes of this crate.
#[cfg(feature = "driver")]
pub use redis;
