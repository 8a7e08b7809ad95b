//! polylock on ZooKeeper: fair queues of ephemeral sequential nodes.
//!
//! A lock is a node, and each claim on it a child, ephemeral and sequential: whoever has no conflicting
//! claim before it holds the lock, and all others watch the one they wait for. That is the layout of
//! Curator's `InterProcessMutex`, so its claims and ours stand in one queue; kazoo's `Lock` joins it with
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
//! - Locks of like ttls share a session, since each is a connection and servers allow an address 60 of them
//!   (`maxClientCnxns`): a ttl is shortened to the next of 1, 2, 3, 4, 5, 6, 8, 10, 15, 20, 30, 40, 60, 90, 120 and 180
//!   seconds that the server gives, and where no connection is left, to the next shorter session that is open.
//!   [`remaining`](lock_core::LockGuard::remaining) tells it, and the log, once for each ttl.
//! - A server gives sessions from two of its ticks up (4 seconds by default): a shorter ttl is
//!   [`Unsupported`](lock_core::ErrorKind::Unsupported). One longer than twenty ticks is shortened.
//! - With each new connection a server says anew how long the session lives, by its own limits. A hold never counts on
//!   more than what the present server gives, or may have given by an answer that was lost.
//! - A server ends sessions at the next tick after their timeout, so a crashed holder blocks others for
//!   its ttl and up to a tick.
//! - Of each ttl a quarter, at most 2 seconds, is not counted on: a server that dies may take along up to
//!   half a tick of heartbeats that the leader has not heard of. This needs sessions of two ticks or more, and ticks of
//!   at most 4 seconds: do not lower `minSessionTimeout` below its default of two ticks. Clients cannot tell that
//!   somebody has, and with shorter sessions two may hold a lock when a server dies.
//! - A queue is read as a whole, and a server answers with 1 MB at most (`jute.maxbuffer`): that are some
//!   15,000 claims on one lock.
//! - Tokens hold for 131,072 elections of a leader; then acquiring is an error.
//! - The driver drives sockets and timers by a thread of its own, `async-io`, in addition to the keeper's.
//! - With TLS the driver asks for the process's default crypto provider. Where there is none yet,
//!   aws-lc-rs is made that; one that the application has chosen is used as it is.

mod acquire;
mod claim_node;
mod claim_registry;
mod client;
mod config;
mod connection;
mod error;
mod lease_store;
mod lock;
mod lock_nodes;
mod paths;
mod queue;
mod removal;
mod renewal;
mod session;
mod waiting;

pub use config::ZooKeeperConfig;
pub use lock::ZooKeeperLock;
pub use zookeeper_client;
