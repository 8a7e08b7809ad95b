//! polylock on etcd: fair locks in all three modes, whose waiters are woken by watches.
//!
//! A claim on a lock is a key directly below the lock's name, `name/<lease>-<claim>`. Its create
//! revision is its position in the queue, and also its fencing token. `etcdctl lock` and the
//! mutexes of the Go client use the same layout. So all these clients exclude each other and are
//! served in one order of arrival. A key of another client counts as an exclusive claim. If that
//! key has no lease, it never ends, and acquiring fails with an error that names the key.
//!
//! Names nest by `/` for `etcdctl get --prefix`. In this crate `a` and `a/b` are two independent
//! locks, but `etcdctl lock a` also waits for holders of `a/b`. Servers list the claims of both for
//! `a`, so each claim on `a/b` makes `a` slower.
//!
//! All claims of a client with the same ttl are attached to one lease, and one stream keeps all
//! leases of the client alive. A hold ends with its lease: a lease that is revoked or expires
//! deletes all its keys. A second stream reports deleted keys, and a holder learns of the deletion
//! of its own key. For each lock, the first waiter of a client watches the claim before it, also
//! for the waiters behind it.
//!
//! Decisions are made in transactions only, which the members agree on. The limits are:
//!
//! - A ttl is a number of whole seconds, at least one and a half election timeouts of the servers.
//! - A new leader gives every lease its full ttl again. So after a change of leader a crashed
//!   holder may block waiters for twice its ttl, and as long as the cluster has no leader.
//! - A cluster that is restored from a snapshot returns to an earlier state, and to earlier tokens.
//!
//! With the cargo feature `tls`, `etcds://` URLs connect over TLS. The client always verifies the
//! servers, with rustls and the aws-lc-rs provider. It passes that provider explicitly, so other
//! providers in the application do not matter.

mod acquire;
mod claim;
mod client;
mod config;
mod connection;
mod error;
mod inspect;
mod keys;
mod lease;
mod lease_store;
mod lock;
mod queue;
mod wait;
mod watch;

pub use config::EtcdConfig;
/// The driver, with the feature `driver`. Changes of its API are not breaking changes of this
/// crate.
#[cfg(feature = "driver")]
pub use etcd_client;
pub use lock::EtcdLock;
