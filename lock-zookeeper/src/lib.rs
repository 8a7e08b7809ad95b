//! polylock on ZooKeeper: fair queues of ephemeral sequential nodes.
//!
//! A lock is a node, and each claim on it is an ephemeral sequential child. A claim holds the lock
//! if no conflicting claim is before it. Each waiting claim watches the claim that blocks it.
//!
//! Curator's `InterProcessMutex` uses the same layout, so its claims and the claims of this crate
//! share one queue. kazoo's `Lock` joins that queue with `extra_lock_patterns=["-lock-"]`. Other
//! clients share exclusive locks only. This crate counts each claim of an unknown client as
//! exclusive, and other clients count each claim of this crate as exclusive.
//!
//! # Guarantees
//!
//! - Claims are granted in the order in which they arrived, across processes, in all three modes.
//! - A hold ends by the client's own clock before the server can end its session. The loss of a
//!   connection alone ends no hold. The end of a session ends all its holds at once.
//! - A token is the id of the transaction that created the claim's node. It grows over elections
//!   and restarts as long as the ensemble keeps its data.
//!
//! # Limits
//!
//! - Locks with similar ttls share a session. Each session is a connection, and servers allow 60
//!   connections from an address (`maxClientCnxns`). A ttl is shortened to the next step that the
//!   server grants. The steps are 1, 2, 3, 4, 5, 6, 8, 10, 15, 20, 30, 40, 60, 90, 120 and 180
//!   seconds. If the server accepts no further connection, the ttl is shortened to the next shorter
//!   open session. [`remaining`](lock_core::LockGuard::remaining) shows the shortened ttl, and the
//!   client logs it once for each ttl.
//! - A server grants sessions of two to twenty ticks (4 to 40 seconds with the usual tick of 2 s). A shorter ttl is
//!   [`Unsupported`](lock_core::ErrorKind::Unsupported), and a longer ttl is shortened.
//! - With each new connection the server sets the timeout of the session anew, by its own limits. A
//!   hold never counts on more than the present server grants, or than a lost answer may have
//!   granted.
//! - A server ends a session at the next tick after its timeout. So a crashed holder blocks waiters
//!   for its ttl and up to a tick. A new leader begins each session anew, so after a change of
//!   leader a crashed holder blocks waiters for up to twice its ttl.
//! - Of each ttl a quarter, at most 2 seconds, does not count. If a server dies, up to half a tick
//!   of requests may never be reported to the leader. After a pause of the client, the time since
//!   its last request before the pause does not count either. This needs sessions of two ticks or
//!   more, and ticks of at most 4 seconds. So do not lower `minSessionTimeout` below its default of two ticks.
//!   Clients cannot detect a lower value, and with shorter sessions two clients may hold a lock
//!   when a server dies.
//! - A server lists a queue in one answer of at most 1 MB (`jute.maxbuffer`): that is some 15,000
//!   claims on one lock.
//! - Tokens last for 131,072 elections of a leader. After that, each acquisition is an error.
//! - The driver runs sockets and timers on a thread of its own, `async-io`, in addition to the
//!   keeper thread.
//! - With TLS the driver uses the default crypto provider of the process. If there is none, this
//!   crate makes aws-lc-rs the default. A provider that the application has chosen stays the
//!   default.

mod acquire;
mod claim;
mod client;
mod config;
mod connection;
mod error;
mod inspect;
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
/// The driver, with the feature `driver`. Changes of its API are not breaking changes of this
/// crate.
#[cfg(feature = "driver")]
pub use zookeeper_client;
