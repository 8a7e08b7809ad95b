//! The contract, on a real server.

mod store;

use std::sync::Arc;

use lock_core::{DistributedLock, Namespace};
use lock_redis::{RedisConfig, RedisLock};
use lock_testkit::Case;
use store::RedisStore;

async fn new_store(case: Case) -> RedisStore {
    RedisStore::for_case(case, |url, namespace| Box::pin(connect(url, namespace)))
}

async fn connect(url: String, namespace: String) -> Arc<dyn DistributedLock> {
    let locks = RedisLock::connect(config(url, namespace)).await;
    Arc::new(locks.expect("the server runs"))
}

fn config(url: String, namespace: String) -> RedisConfig {
    let namespace = Namespace::new(&namespace).expect("a case's name is one");
    RedisConfig::new(url).with_namespace(namespace)
}

lock_testkit::conformance!(new_store);

/// The same with holds that are renewed on the runtime of whoever acquired them.
mod kept_by_the_caller {
    use lock_core::KeeperPlace;

    use super::*;

    async fn new_store(case: Case) -> RedisStore {
        RedisStore::for_case(case, |url, namespace| Box::pin(connect(url, namespace)))
    }

    async fn connect(url: String, namespace: String) -> Arc<dyn DistributedLock> {
        let config = super::config(url, namespace).with_keeper(KeeperPlace::Caller);
        Arc::new(RedisLock::connect(config).await.expect("the server runs"))
    }

    lock_testkit::conformance!(new_store);
}
