//! Connects `redis://` URLs to the backend of Redis and Valkey.

use std::sync::Arc;

use lock_core::{Capabilities, DistributedLock, Result};
use lock_redis::{RedisConfig, RedisLock};

use crate::backend::BackendOptions;

pub(crate) async fn connect(options: BackendOptions) -> Result<Arc<dyn DistributedLock>> {
    Ok(Arc::new(RedisLock::connect(translated(&options)).await?))
}

pub(crate) fn check(options: &BackendOptions) -> Result<Capabilities> {
    RedisLock::check(&translated(options))
}

/// Converts the options to the backend's configuration.
fn translated(options: &BackendOptions) -> RedisConfig {
    RedisConfig::new(options.url())
        .with_namespace(options.namespace())
        .with_keeper(options.keeper().unwrap_or_default())
        .with_tls(options.tls())
}
