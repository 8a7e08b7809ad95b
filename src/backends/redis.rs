//! Connects `redis://` URLs to the backend of Redis and Valkey.

use std::sync::Arc;

use lock_core::{DistributedLock, Result};
use lock_redis::{RedisConfig, RedisLock};

use crate::backend::BackendOptions;

pub(crate) async fn connect(options: BackendOptions) -> Result<Arc<dyn DistributedLock>> {
    let config = RedisConfig::new(options.url())
        .with_namespace(options.namespace())
        .with_keeper(options.keeper().unwrap_or_default())
        .with_tls(options.tls());
    Ok(Arc::new(RedisLock::connect(config).await?))
}
