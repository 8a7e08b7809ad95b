//! The contract, through the facade: every compiled-in backend as users connect to it, with
//! hand-off.

#[cfg(feature = "mysql")]
#[path = "../../lock-mysql/tests/conformance/access.rs"]
mod access;
#[cfg(feature = "etcd")]
#[path = "../../lock-etcd/tests/conformance/store.rs"]
mod etcd_store;
#[cfg(feature = "mysql")]
#[path = "../../lock-mysql/tests/conformance/lease.rs"]
mod lease;
#[cfg(feature = "mysql")]
#[expect(dead_code, reason = "the backend's own tests go more ways")]
#[path = "../../lock-mysql/tests/conformance/place.rs"]
mod place;
#[cfg(feature = "redis")]
#[path = "../../lock-redis/tests/conformance/store.rs"]
mod redis_store;
#[cfg(feature = "zookeeper")]
mod zookeeper;

mod memory {
    use std::sync::Arc;

    use lock_testkit::{Case, Store};
    use polylock::backend::async_trait;
    use polylock::{DistributedLock, LockKey, LockRequest, MemoryLock};

    struct Memory {
        url: String,
        store: MemoryLock,
    }

    async fn new_store(case: Case) -> Memory {
        let namespace = format!("conformance/{case}");
        Memory {
            url: format!("memory://?namespace={namespace}"),
            store: MemoryLock::shared(&namespace),
        }
    }

    #[async_trait]
    impl Store for Memory {
        async fn client(&self) -> Arc<dyn DistributedLock> {
            polylock::connect(&self.url).await.expect("always there")
        }

        fn takes_turns(&self) -> bool {
            true
        }

        async fn residue(&self) -> Vec<String> {
            self.store.claims()
        }

        async fn remove(&self, key: &LockKey) -> bool {
            self.store.evict(key)
        }

        async fn crash(&self, request: LockRequest) -> bool {
            lock_testkit::crash_with_runtime(Arc::new(self.store.clone()), request).await
        }
    }

    lock_testkit::conformance!(new_store);
}

#[cfg(feature = "redis")]
mod redis {
    use std::sync::Arc;

    use lock_testkit::Case;
    use polylock::{Config, DistributedLock};

    use crate::redis_store::{PLAIN, RedisStore};

    async fn new_store(case: Case) -> RedisStore {
        RedisStore::for_case(case, PLAIN, |server, namespace| {
            Box::pin(connect(server.url(), namespace.to_owned()))
        })
    }

    async fn connect(url: String, namespace: String) -> Arc<dyn DistributedLock> {
        let config = Config {
            namespace: Some(namespace),
            ..Config::new(url)
        };
        lock_testkit::answered(|| polylock::connect(config.clone())).await
    }

    lock_testkit::conformance!(new_store);
}

#[cfg(feature = "etcd")]
mod etcd {
    use std::sync::Arc;

    use lock_testkit::Case;
    use polylock::{Config, DistributedLock};

    use crate::etcd_store::{EtcdStore, ONE_MEMBER};

    async fn new_store(case: Case) -> EtcdStore {
        EtcdStore::for_case(case, ONE_MEMBER, |cluster, namespace| {
            Box::pin(connect(cluster.url(), namespace.to_owned()))
        })
    }

    async fn connect(url: String, namespace: String) -> Arc<dyn DistributedLock> {
        let config = Config {
            namespace: Some(namespace),
            ..Config::new(url)
        };
        lock_testkit::answered(|| polylock::connect(config.clone())).await
    }

    lock_testkit::conformance!(new_store);
}

#[cfg(feature = "mysql")]
mod mysql {
    use lock_testkit::Case;
    use lock_testkit::servers::SqlVendor;

    use crate::lease::LeaseStore;
    use crate::place::{Place, Way};

    async fn new_store(case: Case) -> LeaseStore {
        let (vendor, way) = (SqlVendor::MariaDb, Way::Plain);
        LeaseStore::for_case(case, Place { vendor, way })
    }

    lock_testkit::conformance!(new_store);
}

/// False: the kit's child processes cannot connect through the facade.
#[cfg(feature = "mysql")]
const REACHED_BY_OTHERS: bool = false;

/// Connects a client for the store of the MySQL backend's own tests, through the facade.
#[cfg(feature = "mysql")]
async fn connect(
    plain: polylock::mysql::MySqlConfig,
    namespace: &str,
) -> std::sync::Arc<dyn polylock::DistributedLock> {
    let config = polylock::Config {
        namespace: Some(namespace.to_owned()),
        ..polylock::Config::new(plain.url)
    };
    lock_testkit::answered(|| polylock::connect(config.clone())).await
}
