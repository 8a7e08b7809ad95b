//! Connects `zookeeper://` URLs to the ZooKeeper backend.

use std::sync::Arc;

use lock_core::{Capabilities, DistributedLock, Result};
use lock_zookeeper::{ZooKeeperConfig, ZooKeeperLock};

use crate::backend::BackendOptions;

pub(crate) async fn connect(options: BackendOptions) -> Result<Arc<dyn DistributedLock>> {
    Ok(Arc::new(
        ZooKeeperLock::connect(translated(&options)?).await?,
    ))
}

pub(crate) fn check(options: &BackendOptions) -> Result<Capabilities> {
    ZooKeeperLock::check(&translated(options)?)
}

/// Converts the options to the backend's configuration.
fn translated(options: &BackendOptions) -> Result<ZooKeeperConfig> {
    ZooKeeperConfig::from_url(&options.url())?
        .with_namespace(options.namespace())
        .with_keeper(options.keeper().unwrap_or_default())
        .with_certificates(options.tls())
}
