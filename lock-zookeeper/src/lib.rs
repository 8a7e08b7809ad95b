//! polylock on ZooKeeper: fair queues of ephemeral sequential nodes.
//!
//! A lock is a node, and each claim on it a child, ephemeral and sequential: whoever has no conflicting
//! claim before it holds the lock, and all others watch the one they wait for. That is the layout of
//! Curator's `InterProcessMutex`, so its claims and ours stand in one line; kazoo's `Lock` joins it with
//! `extra_lock_patterns=["-lock-"]`. This is promised for exclusive locks: any claim that we do not know
//! counts as exclusive, and others take ours for that.
//!
//! # What it promises
//!
//! - Claims are granted in the order in which they arrived, across processes, in all three modes.
//! - A hold ends by a clock of our own before the server can end its session, and losing the connection
//!   alone costs no lock. Losing the session costs all locks of that session, at once.
//! - A token is the transaction that made the claim's node, which grows over elections and restarts as
//!   long as the ensemble keeps its data.
//!
//! # Where its limits are
//!
//! - Locks with the same ttl share a session, whose timeout is that ttl. A server gives sessions from
//!   two of its ticks up (4 seconds by default): a shorter ttl is
//!   [`Unsupported`](lock_core::ErrorKind::Unsupported). One longer than twenty ticks is shortened.
//! - A server ends sessions at the next tick after their timeout, so a crashed holder blocks others for
//!   its ttl and up to a tick.
//! - Of each ttl a quarter, at most 2 seconds, is not counted on: a server that dies may take along up to
//!   half a tick of heartbeats that the leader has not heard of (this assumes ticks of at most 4 seconds).
//! - The driver tries to reconnect again and again, after pauses that double: an ensemble that was away for
//!   long is found again late, and for a lock that is as long an outage.
//! - A line is read as a whole, and a server answers with 1 MB at most (`jute.maxbuffer`): that are some
//!   15,000 claims on one lock.
//! - Tokens hold for 131,072 elections of a leader; then acquiring is an error.
//! - The driver drives sockets and timers by a thread of its own, `async-io`, in addition to the keeper's.
//! - With TLS the driver asks for the process's default crypto provider. Where there is none yet,
//!   aws-lc-rs is made that; one that the application has chosen is used as it is.

mod acquisition;
mod batch;
mod client;
mod config;
mod confirmed;
mod error;
mod layout;
mod lease;
mod line;
mod lock;
mod parents;
mod places;
mod refused;
mod removal;
mod renewal;
mod session;
mod stand;
mod station;
#[cfg(feature = "tls")]
mod tls;
mod waiting;
mod watches;
mod wire;

pub use config::ZooKeeperConfig;
pub use lock::ZooKeeperLock;
pub use zookeeper_client;
