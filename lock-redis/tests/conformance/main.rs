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
    let namespace = Namespace::new(&namespace).expect("a case's name is one");
    let config = RedisConfig::new(url).with_namespace(namespace);
    Arc::new(RedisLock::connect(config).await.expect("the server runs"))
}

lock_testkit::conformance!(new_store);
