//! Connects `etcd://` URLs to the etcd backend.

use std::sync::Arc;

use lock_core::{DistributedLock, Result};
use lock_etcd::{EtcdConfig, EtcdLock};

use crate::backend::BackendOptions;

pub(crate) async fn connect(options: BackendOptions) -> Result<Arc<dyn DistributedLock>> {
    let config = EtcdConfig::new(options.url())
        .with_namespace(options.namespace())
        .with_keeper(options.keeper().unwrap_or_default())
        .with_tls(options.tls());
    Ok(Arc::new(EtcdLock::connect(config).await?))
}
