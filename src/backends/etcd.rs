//! etcd.

use std::sync::Arc;

use lock_core::{DistributedLock, Namespace, Result};
use lock_etcd::{EtcdConfig, EtcdLock};

use crate::Config;
use crate::url::StoreUrl;

pub(crate) async fn connect(
    url: &StoreUrl,
    config: &Config,
    namespace: Namespace,
) -> Result<Arc<dyn DistributedLock>> {
    let config = EtcdConfig::new(url.without_settings())
        .with_namespace(namespace)
        .with_keeper(config.keeper.unwrap_or_default())
        .with_tls(config.tls());
    Ok(Arc::new(EtcdLock::connect(config).await?))
}
