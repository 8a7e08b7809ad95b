//! The owner of locks, and the grants that it has.

use std::any::Any;
use std::collections::HashMap;
use std::fmt;
use std::sync::{Arc, Weak};

use tokio::sync::Notify;

use crate::LockKey;
use crate::mutex::Mutex;

/// The smallest number of keys at which ended grants are looked for.
const SWEEP_MIN: usize = 16;

/// An owner of locks: its requests for a key that it holds enter without asking the store.
///
/// Ownership is a value that travels with the requests, not a thread or a task: set it with
/// [`LockRequest::for_owner`](crate::LockRequest::for_owner), or for all requests of a client with
/// [`with_owner`](crate::DistributedLockExt::with_owner). Clones are the same owner.
///
/// - **Tasks that share an owner do not exclude each other.** Use one owner for each order, request
///   or job, not one for each process.
/// - A request for a key that the owner holds makes one more guard of the same grant, with the same
///   token. The store hears of the release when the last of these guards has ended, in whatever
///   order they end. The loss of the grant is the loss of all its guards.
/// - The request must ask for the same mode, and for no longer lock delay or minimum hold. Otherwise
///   it fails with [`Unsupported`](crate::ErrorKind::Unsupported). Its ttl does not count, and its
///   maximum hold ends its own guard only.
/// - The owner is known to one client. The same key on another client is another lock.
///
/// ```
/// use std::sync::Arc;
/// use lock_core::{DistributedLockExt, MemoryLock, Owner};
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> lock_core::Result<()> {
/// let client = Arc::new(MemoryLock::new());
/// let order = Owner::new();
/// let locks = client.with_owner(&order);
/// let outer = locks.lock("order/42").await?;
/// let inner = locks.lock("order/42").await?;
/// assert_eq!(outer.token(), inner.token());
/// drop(outer);
/// assert!(client.try_lock("order/42").await?.is_none(), "the inner guard keeps the lock");
/// inner.release().await?;
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Default)]
pub struct Owner(Arc<Mutex<Grants>>);

/// The grants of an owner, by client and key.
#[derive(Default)]
struct Grants {
    by_key: HashMap<(usize, LockKey), Arc<OwnedKey>>,
    /// The number of keys at which ended grants are looked for next.
    sweep_at: usize,
}

/// The guard that all guards of a grant share. Its type is hidden, so that requests need not know
/// guards.
pub(super) type Whole = Arc<dyn Any + Send + Sync>;

/// A key of an owner on one client.
pub(super) struct OwnedKey {
    /// Keeps the address of the client's state from being used again.
    _client: Weak<dyn Any + Send + Sync>,
    grant: Mutex<Option<Weak<dyn Any + Send + Sync>>>,
    /// Notified of a new grant.
    pub(super) granted: Notify,
}

impl Owner {
    /// Creates an owner that holds nothing.
    pub fn new() -> Self {
        Self::default()
    }

    /// Returns the owner's entry for `key` of `client`.
    pub(super) fn entry(
        &self,
        client: Weak<dyn Any + Send + Sync>,
        key: &LockKey,
    ) -> Arc<OwnedKey> {
        let address = client.as_ptr().cast::<()>().addr();
        let mut grants = self.0.lock();
        if let Some(entry) = grants.by_key.get(&(address, key.clone())) {
            return Arc::clone(entry);
        }
        if grants.by_key.len() >= grants.sweep_at.max(SWEEP_MIN) {
            // Entries with a second handle are in use by a request.
            let is_used =
                |entry: &Arc<OwnedKey>| Arc::strong_count(entry) > 1 || entry.grant().is_some();
            grants.by_key.retain(|_, entry| is_used(entry));
            grants.sweep_at = 2 * grants.by_key.len();
        }
        let entry = Arc::new(OwnedKey {
            _client: client,
            grant: Mutex::default(),
            granted: Notify::new(),
        });
        grants
            .by_key
            .insert((address, key.clone()), Arc::clone(&entry));
        entry
    }
}

impl OwnedKey {
    /// Returns the present grant, if guards of it exist.
    pub(super) fn grant(&self) -> Option<Whole> {
        self.grant.lock().as_ref()?.upgrade()
    }

    /// Records a new grant, and wakes the requests that wait for the key.
    pub(super) fn set(&self, whole: &Whole) {
        *self.grant.lock() = Some(Arc::downgrade(whole));
        self.granted.notify_waiters();
    }
}

impl PartialEq for Owner {
    fn eq(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.0, &other.0)
    }
}

impl Eq for Owner {}

impl fmt::Debug for Owner {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Owner").field(&Arc::as_ptr(&self.0)).finish()
    }
}
