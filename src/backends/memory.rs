//! Connects `memory://` URLs to stores inside the process.

use std::sync::Arc;

use lock_core::{Capabilities, DistributedLock, Error, ErrorKind, KeeperMode, MemoryLock, Result};

use crate::backend::BackendOptions;

pub(crate) async fn connect(options: BackendOptions) -> Result<Arc<dyn DistributedLock>> {
    check(&options)?;
    let namespace = options.namespace();
    let store = namespace.as_str().unwrap_or_default();
    Ok(Arc::new(MemoryLock::shared(store)))
}

pub(crate) fn check(options: &BackendOptions) -> Result<Capabilities> {
    if let Some(setting) = options.tls().first_given() {
        return Err(Error::new(
            ErrorKind::Config,
            format!(
                "{setting} is set, and memory:// never leaves the process: leave it out, or use a store with TLS, such as rediss://"
            ),
        ));
    }
    if !options.location().is_empty() {
        return Err(Error::new(
            ErrorKind::Config,
            "memory:// has no host or path: name a store of its own by memory://?namespace=NAME",
        ));
    }
    if options.keeper() == Some(KeeperMode::Thread) {
        return Err(Error::new(
            ErrorKind::Unsupported,
            "keeper: memory:// keeps its holds on the caller's runtime: leave it out, or write \"caller\"",
        ));
    }
    Ok(MemoryLock::new().capabilities())
}
