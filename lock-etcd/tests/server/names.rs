//! Names on the servers.

use lock_core::{DistributedLockExt, Namespace};
use lock_etcd::{EtcdConfig, EtcdLock};
use lock_testkit::servers::EtcdCluster;
use lock_testkit::steady;

use crate::{connect, keys};

#[test]
fn names_that_look_alike_are_different_locks() {
    steady(async || {
        let cluster = EtcdCluster::start(1);
        let locks = connect(cluster.url()).await;
        let long = "n".repeat(255);
        let names = [
            "a",
            "a/b",
            "a%2Fb",
            "A",
            "a ",
            "a/",
            "/a",
            "a\0",
            "锁/订单:42",
            &long,
        ];
        let mut guards = Vec::new();
        for name in names {
            let guard = locks.try_lock(name).await.unwrap();
            guards.push(guard.unwrap_or_else(|| panic!("{name:?} is taken by one of {names:?}")));
        }
        let other = connect(cluster.url()).await;
        for name in names {
            assert!(other.try_lock(name).await.unwrap().is_none(), "{name:?}");
        }
    });
}

#[test]
fn names_nest_by_slashes() {
    steady(async || {
        let cluster = EtcdCluster::start(1);
        let namespace = Namespace::new("shop/eu").unwrap();
        let config = EtcdConfig::new(cluster.url()).with_namespace(namespace);
        let locks = EtcdLock::connect(config).await.unwrap();
        let _guards = [
            locks.lock("orders/42").await.unwrap(),
            locks.lock("orders/43").await.unwrap(),
            locks.lock("ordersX").await.unwrap(),
        ];
        assert_eq!(keys(&cluster, "shop%2Feu/orders/").len(), 2);
        assert_eq!(keys(&cluster, "shop%2Feu/orders/42/").len(), 1);
        assert_eq!(keys(&cluster, "shop%2Feu/").len(), 3);
    });
}
