//! polylock on MySQL and MariaDB: the database lock, in two ways.
//!
//! Both stand on one locks table with a row for each key, and decide by `SELECT … FOR UPDATE` on
//! it:
//!
//! - [`MySqlHold::Lease`] (default): the row says who holds the key and until when, by the server's
//!   clock. Taking and releasing are short transactions of one packet and one commit each, and no
//!   connection is needed while a lock is held. All three modes.
//! - [`MySqlHold::Row`]: the transaction stays open, and the row lock is the lock. Any client's
//!   `SELECT … FOR UPDATE` on the row respects it, and the server frees it as soon as the
//!   connection dies. A heartbeat keeps it, and the session's `wait_timeout` ends it when the
//!   heartbeats stay away.
//!
//! Row locks, and all that keeps holds, have their connections at the client's
//! [`KeeperRuntime`](lock_core::backend::KeeperRuntime), so neither a blocked nor a dropped runtime
//! of the application takes them along. Leases are taken and released over connections of each
//! runtime that does so, which end with it. A request that no caller waits for any more is not cut
//! off: it goes on in the background, and what it won is given back.

mod acquire;
mod client;
mod config;
mod connection;
mod diagnosis;
mod error;
mod lease;
mod lease_store;
mod lock;
mod row;
mod schema;
mod server_checks;

pub use config::{MySqlConfig, MySqlHold};
pub use lock::MySqlLock;
/// The driver, with the feature `driver`. Its changes are no breaking changes of this crate.
#[cfg(feature = "driver")]
pub use sqlx;
