//! polylock on MySQL and MariaDB, with two kinds of holds in one locks table.
//!
//! The table has a row for each key. Both kinds of holds lock this row by `SELECT … FOR UPDATE`, so
//! they exclude each other:
//!
//! - [`MySqlHold::Lease`] (default): the row stores the holder and the end of its lease, by the
//!   server's clock. A take and a release are one packet and one commit each. A held lock needs no
//!   connection. All three modes are supported.
//! - [`MySqlHold::Row`]: the row lock of an open transaction. Any client's `SELECT … FOR UPDATE` on
//!   the row respects it, and the server frees the row as soon as the connection dies. Heartbeats
//!   keep the session alive. Without heartbeats, the session's `wait_timeout` ends it.
//!
//! The connections of row locks and of renewals live on the client's
//! [`KeeperRuntime`](lock_core::backend::KeeperRuntime). So they survive an application runtime
//! that is blocked or dropped. Takes and releases of leases use connections of the calling runtime,
//! which end with that runtime. A request whose caller has gone continues in the background, and a
//! lock that it wins is released.

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
