//! The Redis backend of polylock: one server, all three modes, waiters woken by push.
//!
//! An exclusive lock is the plain `SET key owner PX ttl` of other lock clients, so both exclude
//! each other. Shared and permit holds are a sorted set at the same key, with an expiry for each
//! holder by the server's clock.
//!
//! A client has two kinds of connections. A *command* connection takes and releases; there is one
//! per runtime that acquires, which saves a hop between threads. The *background* connection
//! renews, releases as a last resort, and receives pushes about held keys. It lives on the client's
//! [`KeeperRuntime`](lock_core::backend::KeeperRuntime).
//!
//! With the cargo feature `tls`, `rediss://` URLs connect over TLS by rustls, and the server is
//! always verified. The aws-lc-rs provider is passed explicitly, so other providers in the
//! application do not matter.
//!
//! A failover of one server can break exclusion: the new master may lack the last grants. Fencing
//! tokens keep growing across it, since every new connection raises them to the server's clock, so
//! a resource that checks tokens stays safe. This does not help if the data goes back in time while
//! connections stay open. Examples are a counter that is restored in place, and a master that
//! becomes a replica of a stale master and then a master again.

mod acquire;
mod client;
mod commands;
mod config;
mod connection;
mod error;
mod inspect;
mod keys;
mod lease_store;
mod lock;
mod notifications;
mod server_checks;
mod wake_rate_limit;

pub use config::RedisConfig;
pub use lock::RedisLock;
/// The driver, with the feature `driver`. Its changes are not breaking changes of this crate.
#[cfg(feature = "driver")]
pub use redis;
