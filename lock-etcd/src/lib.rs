//! polylock on etcd: all three modes, served in the order of arrival, waiters woken by watches.
//!
//! A claim on a lock is a key directly below the lock's name, `name/<lease>-<owner>`, and its place in the
//! queue is the key's create revision, which is its fencing token, too. That is the layout of `etcdctl
//! lock` and of the mutexes of the Go client, so either excludes the other, and all are served in the
//! order in which they came. What others put there counts as an exclusive claim, and where it has no lease, so
//! that it never ends, as an error that names it.
//!
//! Names nest by `/` for `etcdctl get --prefix`. Here `a` and `a/b` are two locks that have nothing to do
//! with each other; `etcdctl lock a`, though, also waits for holders of our `a/b`. Servers list both, so a lock
//! costs more the more is held below its name.
//!
//! All claims of a client with the same ttl stand under one lease, and one stream keeps all its leases
//! alive. So a hold costs nothing while it is held, and it ends with its lease: revoking the lease, or
//! letting it expire, frees all that stands under it. A second stream tells of keys that go: holders of their
//! own, and the first waiter of a client for each key, for those behind it, too, of the claim before it.
//!
//! Decisions are made in transactions only, which the members agree on. Where the limits are:
//!
//! - A ttl is a number of whole seconds, at least one and a half election timeouts of the servers.
//! - A new leader gives every lease its full ttl again, so after a change of leader a crashed holder may
//!   block others for twice its ttl, and as long as nobody leads.
//! - A cluster that is restored from a snapshot goes back in time, and with it its tokens.
//!
//! With the cargo feature `tls`, `etcds://` URLs connect over TLS, the servers always verified: by rustls
//! with the aws-lc-rs provider, which is handed over explicitly, so that it does not matter what else an
//! application has compiled in.

mod acquire;
mod batches;
mod claim_key;
mod client;
mod config;
mod connection;
mod detached;
mod error;
mod key_pool;
mod keys;
mod lease;
mod lease_store;
mod lock;
mod queue;
mod release;
mod wait;
mod watch;

pub use config::EtcdConfig;
/// The driver, with the feature `driver`. Its changes are no breaking changes of this crate.
#[cfg(feature = "driver")]
pub use etcd_client;
pub use lock::EtcdLock;
