//! Connects `zookeeper://` URLs to the ZooKeeper backend.

use std::sync::Arc;

use lock_core::{DistributedLock, Result};
use lock_zookeeper::{ZooKeeperConfig, ZooKeeperLock};

use crate::backend::BackendOptions;

pub(crate) async fn connect(options: BackendOptions) -> Result<Arc<dyn DistributedLock>> {
    let config = ZooKeeperConfig::from_url(&options.url())?
        .with_namespace(options.namespace())
        .with_keeper(options.keeper().unwrap_or_default())
        .with_certificates(options.tls())?;
    Ok(Arc::new(ZooKeeperLock::connect(config).await?))
}
