//! A client whose requests are all of one owner.

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;

use crate::backend::Keeper;
use crate::{
    Capabilities, DistributedLock, Health, KeyInfo, LockGuard, LockKey, LockRequest, Owner, Result,
};

/// A client whose requests are of one [`Owner`], unless they name another one.
///
/// Made by [`with_owner`](crate::DistributedLockExt::with_owner). Clones are the same client with
/// the same owner.
#[derive(Debug)]
pub struct WithOwner<L: ?Sized> {
    locks: Arc<L>,
    owner: Owner,
}

impl<L: ?Sized> WithOwner<L> {
    pub(crate) fn new(locks: Arc<L>, owner: Owner) -> Self {
        Self { locks, owner }
    }

    /// Returns the owner of the requests.
    pub fn owner(&self) -> &Owner {
        &self.owner
    }
}

impl<L: ?Sized> Clone for WithOwner<L> {
    fn clone(&self) -> Self {
        Self::new(Arc::clone(&self.locks), self.owner.clone())
    }
}

#[async_trait]
impl<L: DistributedLock + ?Sized> DistributedLock for WithOwner<L> {
    fn capabilities(&self) -> Capabilities {
        self.locks.capabilities()
    }

    fn keeper(&self) -> Option<&Keeper> {
        self.locks.keeper()
    }

    async fn acquire(&self, request: LockRequest) -> Result<Option<LockGuard>> {
        let request = match request.owner {
            Some(_) => request,
            None => request.for_owner(&self.owner),
        };
        self.locks.acquire(request).await
    }

    async fn health(&self) -> Health {
        self.locks.health().await
    }

    async fn inspect_key(&self, key: &LockKey) -> Result<KeyInfo> {
        self.locks.inspect_key(key).await
    }

    async fn shutdown(&self, within: Duration) -> Result<()> {
        self.locks.shutdown(within).await
    }
}
