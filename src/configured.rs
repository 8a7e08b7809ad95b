//! The configuration's defaults for requests.

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use lock_core::{Capabilities, DistributedLock, LockGuard, LockRequest, Result, Wait};

/// A backend that adds the defaults of its configuration to requests.
#[derive(Debug)]
pub(crate) struct Configured {
    pub(crate) locks: Arc<dyn DistributedLock>,
    pub(crate) ttl: Option<Duration>,
    pub(crate) request_wait: Option<Duration>,
    pub(crate) lock_delay: Option<Duration>,
}

#[async_trait]
impl DistributedLock for Configured {
    fn capabilities(&self) -> Capabilities {
        self.locks.capabilities()
    }

    async fn acquire(&self, mut request: LockRequest) -> Result<Option<LockGuard>> {
        request.ttl = request.ttl.or(self.ttl);
        request.wait = request.wait.or_else(|| self.request_wait.map(wait_at_most));
        request.lock_delay = request.lock_delay.or(self.lock_delay);
        self.locks.acquire(request).await
    }

    async fn shutdown(&self, within: Duration) -> Result<()> {
        self.locks.shutdown(within).await
    }
}

fn wait_at_most(limit: Duration) -> Wait {
    if limit.is_zero() {
        Wait::No
    } else {
        Wait::within(limit)
    }
}
