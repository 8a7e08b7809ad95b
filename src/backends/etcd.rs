//! Connects `etcd://` URLs to the etcd backend.

use std::sync::Arc;

use lock_core::{Capabilities, DistributedLock, Result};
use lock_etcd::{EtcdConfig, EtcdLock};

use crate::backend::BackendOptions;

pub(crate) async fn connect(options: BackendOptions) -> Result<Arc<dyn DistributedLock>> {
    Ok(Arc::new(EtcdLock::connect(translated(&options)).await?))
}

pub(crate) fn check(options: &BackendOptions) -> Result<Capabilities> {
    EtcdLock::check(&translated(options))
}

/// Converts the options to the backend's configuration.
fn translated(options: &BackendOptions) -> EtcdConfig {
    EtcdConfig::new(options.url())
        .with_namespace(options.namespace())
        .with_keeper(options.keeper().unwrap_or_default())
        .with_tls(options.tls())
}
