//! polylock on etcd: all three modes in the order of arrival, with waiters that are woken by
//! watches.
//!
//! A claim on a lock is a key directly below the lock's name, `name/<lease>-<claim>`. Its create
//! revision is its position in the queue, and also its fencing token. `etcdctl lock` and the
//! mutexes of the Go client use the same layout. So all these clients exclude each other and are
//! served in one order of arrival. A key of another client counts as an exclusive claim. If it has no
//! lease, it never ends, and acquiring fails with an error that names it.
//!
//! Names nest by `/` for `etcdctl get --prefix`. Here `a` and `a/b` are two independent locks;
//! `etcdctl lock a`, though, also waits for holders of our `a/b`. Servers list both, so each claim
//! below its name makes a lock slower.
//!
//! All claims of a client with the same ttl are attached to one lease, and one stream keeps all its
//! leases alive. So a hold costs nothing while it is held, and it ends with its lease: a lease that
//! is revoked or expires deletes all its keys. A second stream reports deleted keys. A holder
//! learns of the deletion of its own key. For each key, the first waiter of a client watches the
//! claim before it, also for the waiters behind it.
//!
//! Decisions are made in transactions only, which the members agree on. The limits are:
//!
//! - A ttl is a number of whole seconds, at least one and a half election timeouts of the servers.
//! - A new leader gives every lease its full ttl again. So after a change of leader a crashed
//!   holder may block others for twice its ttl, and as long as the cluster has no leader.
//! - A cluster that is restored from a snapshot goes back in time, and with it its tokens.
//!
//! With the cargo feature `tls`, `etcds://` URLs connect over TLS, and the servers are always
//! verified: by rustls with the aws-lc-rs provider. It is passed explicitly, so other providers in
//! the application do not matter.

mod acquire;
mod claim_key;
mod client;
mod config;
mod connection;
mod error;
mod key_pool;
mod keys;
mod lease;
mod lease_store;
mod lock;
mod queue;
mod wait;
mod watch;

pub use config::EtcdConfig;
/// The driver, with the feature `driver`. Its changes are no breaking changes of this crate.
#[cfg(feature = "driver")]
pub use etcd_client;
pub use lock::EtcdLock;
