//! ZooKeeper.

use std::sync::Arc;

use lock_core::{DistributedLock, Namespace, Result};
use lock_zookeeper::{ZooKeeperConfig, ZooKeeperLock};

use crate::Config;
use crate::url::StoreUrl;

pub(crate) async fn connect(
    url: &StoreUrl,
    config: &Config,
    namespace: Namespace,
) -> Result<Arc<dyn DistributedLock>> {
    let config = ZooKeeperConfig::from_url(&url.without_settings())?
        .with_namespace(namespace)
        .with_keeper(config.keeper.unwrap_or_default())
        .with_certificates(config.tls())?;
    Ok(Arc::new(ZooKeeperLock::connect(config).await?))
}
