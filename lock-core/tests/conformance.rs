//! Conformance cases on the memory backend.

use std::sync::Arc;

use lock_core::{DistributedLock, LockKey, LockRequest, MemoryLock};
use lock_testkit::{Case, Store, async_trait, crash_with_runtime};

struct Memory(MemoryLock);

#[async_trait]
impl Store for Memory {
    async fn client(&self) -> Arc<dyn DistributedLock> {
        Arc::new(self.0.new_client())
    }

    fn takes_turns(&self) -> bool {
        true
    }

    async fn residue(&self) -> Vec<String> {
        self.0.claims()
    }

    async fn remove(&self, key: &LockKey) -> bool {
        self.0.evict(key)
    }

    async fn crash(&self, request: LockRequest) -> bool {
        crash_with_runtime(self.client().await, request).await
    }
}

async fn new_store(_case: Case) -> Memory {
    Memory(MemoryLock::new())
}

lock_testkit::conformance!(new_store);
