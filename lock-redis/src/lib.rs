//! polylock on Redis: one server, all three modes, waiters woken by push.
//!
//! An exclusive lock is the plain layout `SET key owner PX ttl` that other lock clients use, so
//! either excludes the other. Shared and permit holds are a sorted set at the same key, each holder
//! with an expiry of its own by the server's clock.
//!
//! A client keeps two connections. The *command* connection takes and releases; it lives on the
//! runtime of whoever acquires, which saves a hop between threads. The *background* connection
//! renews, releases as a last resort, and is told by the server when a key that somebody waits for
//! changes; it lives at the client's [`KeeperHome`](lock_core::KeeperHome).
//!
//! With the cargo feature `tls`, `rediss://` URLs connect over TLS, the server always verified: by rustls
//! with the aws-lc-rs provider, which is handed over explicitly, so that it does not matter what else an
//! application has compiled in.
//!
//! What one server cannot promise: a replica that takes over may not have seen the last grants.
//! Fencing tokens keep growing over that (they are floored by the server's clock on every new
//! connection), so a resource that checks them stays safe.

mod client;
mod config;
mod error;
mod first_word;
mod lanes;
mod layout;
mod lease;
mod link;
mod lock;
mod pace;
mod script;
mod server;
#[cfg(feature = "tls")]
mod tls;
mod wake;
mod wire;

pub use config::RedisConfig;
pub use lock::RedisLock;
pub use redis;
