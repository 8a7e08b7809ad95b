//! The leases of holds with a minimum, and of those that are given back early.

use std::time::Duration;

use lock_core::backend::Released;
use lock_core::{DistributedLock, DistributedLockExt, LockGuard, LockRequest};
use lock_etcd::EtcdLock;
use lock_testkit::servers::EtcdCluster;
use lock_testkit::{answered, steady};

use crate::{connect, leases};

const MINIMUM: Duration = Duration::from_secs(10);

fn request(key: &str, ttl: Duration) -> LockRequest {
    let request = LockRequest::exclusive(key).expect("a key").with_ttl(ttl);
    let request = request.labelled("x").expect("a label");
    request.holding_at_least(MINIMUM).without_waiting()
}

async fn kept(locks: &EtcdLock, key: &str, ttl: Duration) -> LockGuard {
    let request = request(key, ttl);
    let taken = answered(|| locks.acquire(request.clone())).await;
    taken.expect("free")
}

/// Returns the remaining seconds of the lease to which the only key with this prefix is attached.
fn left(cluster: &EtcdCluster, prefix: &str) -> u64 {
    let attached = leases(cluster).into_iter().find_map(|lease| {
        let told = cluster.control(&["lease", "timetolive", &lease, "--keys"]);
        told.contains(prefix).then_some(told)
    });
    let told = attached.expect("a lease of the key");
    let (_, left) = told.split_once("remaining(").expect("its time");
    let (left, _) = left.split_once('s').expect("seconds");
    left.parse().expect("a number")
}

#[test]
fn a_lease_that_was_kept_alive_a_while_ago_is_confirmed_for_the_next_minimum() {
    steady(async || {
        let cluster = EtcdCluster::start(1);
        let locks = connect(cluster.url()).await;
        let first = kept(&locks, "first", MINIMUM).await;
        // Less than a quarter of the ttl, at which it is kept alive again.
        tokio::time::sleep(MINIMUM / 5).await;
        let second = locks.acquire(request("second", MINIMUM)).await;
        let second = second.expect("its lease is confirmed").expect("free");
        let left = left(&cluster, "second");
        // It is told in whole seconds, rounded down.
        assert!(left >= MINIMUM.as_secs(), "{left} s of {MINIMUM:?}");
        assert!(first.is_held() && second.is_held());
    });
}

#[test]
fn a_release_leaves_the_rest_of_the_minimum_on_the_servers() {
    steady(async || {
        let cluster = EtcdCluster::start(1);
        let locks = connect(cluster.url()).await;
        let (released, held) = (
            kept(&locks, "released", MINIMUM * 6).await,
            kept(&locks, "held", MINIMUM * 6).await,
        );
        assert_eq!(released.release().await.unwrap(), Released::Released);
        let rest = left(&cluster, "released");
        assert!((9..=11).contains(&rest), "{rest} s left");
        let info = locks.inspect("released").await.expect("the servers run");
        assert_eq!(info.holders[0].label.as_deref(), Some("x"), "{info:?}");
        assert!(left(&cluster, "held") > 50);
        assert!(held.is_held());
    });
}
