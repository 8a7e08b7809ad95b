//! The configuration's defaults for requests.

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use lock_core::{
    Capabilities, DistributedLock, Health, KeyInfo, LockGuard, LockKey, LockRequest, Result, Wait,
};

use crate::Config;

/// A backend that adds the defaults of its configuration to requests.
#[derive(Debug)]
pub(crate) struct Configured {
    pub(crate) locks: Arc<dyn DistributedLock>,
    pub(crate) defaults: Defaults,
}

/// The defaults for requests.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Defaults {
    ttl: Option<Duration>,
    request_wait: Option<Duration>,
    lock_delay: Option<Duration>,
}

impl Defaults {
    pub(crate) fn of(config: &Config) -> Self {
        Self {
            ttl: config.ttl,
            request_wait: config.request_wait,
            lock_delay: config.lock_delay,
        }
    }

    /// Sets what `request` leaves open.
    pub(crate) fn apply(&self, request: &mut LockRequest) {
        request.ttl = request.ttl.or(self.ttl);
        request.wait = request.wait.or_else(|| self.request_wait.map(wait_at_most));
        request.lock_delay = request.lock_delay.or(self.lock_delay);
    }
}

#[async_trait]
impl DistributedLock for Configured {
    fn capabilities(&self) -> Capabilities {
        self.locks.capabilities()
    }

    async fn acquire(&self, mut request: LockRequest) -> Result<Option<LockGuard>> {
        self.defaults.apply(&mut request);
        self.locks.acquire(request).await
    }

    async fn acquire_together(&self, requests: &[LockRequest]) -> Result<Option<Vec<LockGuard>>> {
        let mut requests = requests.to_vec();
        for request in &mut requests {
            self.defaults.apply(request);
        }
        self.locks.acquire_together(&requests).await
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

fn wait_at_most(limit: Duration) -> Wait {
    if limit.is_zero() {
        Wait::No
    } else {
        Wait::within(limit)
    }
}
