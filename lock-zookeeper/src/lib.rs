//! polylock on ZooKeeper: fair queues of ephemeral sequential nodes.
//!
//! A lock is a node, and each claim on it an ephemeral sequential child. A claim holds the lock if
//! no conflicting claim is before it, and all others watch the claim that they wait for. Curator's
//! `InterProcessMutex` uses the same layout, so its claims and ours share one queue; kazoo's `Lock`
//! joins it with `extra_lock_patterns=["-lock-"]`. This holds for exclusive locks: any claim of an
//! unknown client counts as exclusive, and other clients take ours for that.
//!
//! # What it promises
//!
//! - Claims are granted in the order in which they arrived, across processes, in all three modes.
//! - A hold ends by a clock of our own before the server can end its session, and losing the connection
//!   alone costs no lock. Losing the session costs all locks of that session, at once.
//! - A token is the id of the transaction that created the claim's node. It grows over elections
//!   and restarts as long as the ensemble keeps its data.
//!
//! # Where its limits are
//!
//! - Locks with similar ttls share a session, since each session is a connection, and servers allow
//!   60 of them from an address (`maxClientCnxns`). A ttl is shortened to the next of 1, 2, 3, 4,
//!   5, 6, 8, 10, 15, 20, 30, 40, 60, 90, 120 and 180 seconds that the server grants; if no
//!   connection is left, to the next shorter open session.
//!   [`remaining`](lock_core::LockGuard::remaining) shows it, and the log, once for each ttl.
//! - A server grants sessions from two of its ticks up (4 seconds by default): a shorter ttl is
//!   [`Unsupported`](lock_core::ErrorKind::Unsupported). One longer than twenty ticks is shortened.
//! - With each new connection a server decides anew how long the session lives, by its own limits.
//!   A hold never counts on more than what the present server grants, or may have granted by an
//!   answer that was lost.
//! - A server ends sessions at the next tick after their timeout, so a crashed holder blocks others for
//!   its ttl and up to a tick.
//! - Of each ttl a quarter, at most 2 seconds, does not count: if a server dies, up to half a tick
//!   of heartbeats may never reach the leader. This needs sessions of two ticks or more, and ticks
//!   of at most 4 seconds: do not lower `minSessionTimeout` below its default of two ticks. Clients
//!   cannot detect a lower one, and with shorter sessions two clients may hold a lock when a server
//!   dies.
//! - A server lists a queue as a whole, and its answer has 1 MB at most (`jute.maxbuffer`): that is
//!   some 15,000 claims on one lock.
//! - Tokens hold for 131,072 elections of a leader; then acquiring is an error.
//! - The driver drives sockets and timers by a thread of its own, `async-io`, in addition to the keeper's.
//! - With TLS the driver uses the default crypto provider of the process. If there is none yet,
//!   aws-lc-rs becomes the default; one that the application has chosen is used as it is.

mod acquire;
mod claim;
mod client;
mod config;
mod connection;
mod error;
mod lease_store;
mod lock;
mod lock_nodes;
mod paths;
mod queue;
mod renewal;
mod session;
mod url;
mod waiting;

pub use config::ZooKeeperConfig;
pub use lock::ZooKeeperLock;
/// The driver, with the feature `driver`. Its changes are no breaking changes of this crate.
#[cfg(feature = "driver")]
pub use zookeeper_client;
