//! Names of keys on the servers.

use std::collections::BTreeSet;

use lock_core::{DistributedLockExt, Namespace};
use lock_etcd::etcd_client::{Client, EventType, WatchOptions};
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
            lock_testkit::assert_excluded!(
                other.try_lock(name).await.unwrap().is_none(),
                "{name:?}"
            );
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

/// Until compaction, servers skip each former name of a queue whenever they list the queue.
#[test]
fn a_lock_that_is_taken_again_and_again_has_few_names_in_the_history() {
    const TIMES: usize = 40;

    steady(async || {
        let cluster = EtcdCluster::start(1);
        let locks = connect(cluster.url()).await;
        for _ in 0..TIMES {
            locks.lock("k").await.unwrap().release().await.unwrap();
            let tried = locks.try_lock("k").await.unwrap();
            lock_testkit::assert_excluded!(locks.try_lock("k").await.unwrap().is_none());
            tried.expect("free").release().await.unwrap();
        }
        let endpoint = [cluster.first().plain_endpoint()];
        let mut client = Client::connect(endpoint, None).await.unwrap();
        let all = WatchOptions::new().with_prefix().with_start_revision(1);
        let watch = client.watch("k/", Some(all)).await.unwrap();
        let (_requests, mut answers) = watch.split();
        let (mut names, mut deleted) = (BTreeSet::new(), 0);
        while deleted < 2 * TIMES {
            let answer = answers.message().await.unwrap().expect("it goes on");
            for event in answer.events() {
                names.insert(event.kv().expect("a key").key().to_vec());
                deleted += usize::from(event.event_type() == EventType::Delete);
            }
        }
        assert_eq!(names.len(), 1, "{names:?}");
    });
}
