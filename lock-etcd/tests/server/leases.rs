//! The number of leases, and their ends.

use std::time::Duration;

use lock_core::{DistributedLock, DistributedLockExt, ErrorKind, LockGuard, LockRequest};
use lock_etcd::EtcdLock;
use lock_testkit::servers::EtcdCluster;
use lock_testkit::{answered, eventually, steady};

use crate::{PROMPT, connect, leases};

const TTL: Duration = Duration::from_secs(2);

/// Takes a free lock, also from a busy server. These tests are about leases, not about its answers.
async fn lock_for(locks: &EtcdLock, key: &str, ttl: Duration) -> LockGuard {
    let request = LockRequest::exclusive(key).expect("a key").with_ttl(ttl);
    let taken = answered(|| locks.acquire(request.clone().without_waiting())).await;
    taken.expect("free")
}

async fn no_lease_is_left(cluster: &EtcdCluster) {
    let none = || async { leases(cluster).is_empty() };
    eventually(PROMPT, "no lease is left", none).await;
}

#[test]
fn holds_with_the_same_ttl_share_a_lease_and_one_stream_keeps_all_alive() {
    steady(async || {
        let cluster = EtcdCluster::start(1);
        let locks = connect(cluster.url()).await;
        let mut guards = Vec::new();
        for number in 0..20 {
            let ttl = TTL + Duration::from_millis(40 * number);
            guards.push(lock_for(&locks, &format!("k{number}"), ttl).await);
        }
        assert_eq!(
            leases(&cluster).len(),
            1,
            "of holds between 2 and 3 seconds"
        );
        guards.push(lock_for(&locks, "longer", TTL * 2).await);
        assert_eq!(leases(&cluster).len(), 2);
        tokio::time::sleep(TTL * 2).await;
        assert!(guards.iter().all(|guard| guard.is_held()));
        let streams = cluster
            .first()
            .figure("grpc_server_started_total{grpc_method=\"LeaseKeepAlive\"");
        assert_eq!(streams, 1.0);
    });
}

#[test]
fn a_keep_alive_counts_once_the_members_have_agreed_on_a_transaction() {
    steady(async || {
        let cluster = EtcdCluster::start(1);
        let locks = connect(cluster.url()).await;
        let guard = lock_for(&locks, "k", TTL).await;
        // Counts transactions, but no keep-alives and no reads.
        let agreed = || {
            cluster
                .first()
                .figure("etcd_server_proposals_applied_total")
        };
        let before = agreed();
        let three_renewals = || async { agreed() >= before + 3.0 };
        eventually(TTL * 4, "the third renewal", three_renewals).await;
        assert!(guard.is_held());
    });
}

#[test]
fn a_lease_that_nobody_uses_is_revoked() {
    steady(async || {
        let cluster = EtcdCluster::start(1);
        let locks = connect(cluster.url()).await;
        let guard = lock_for(&locks, "k", TTL).await;
        guard.release().await.unwrap();
        assert_eq!(leases(&cluster).len(), 1, "it is kept for the next one");
        no_lease_is_left(&cluster).await;
        assert!(lock_for(&locks, "k", TTL).await.is_held());
    });
}

#[test]
fn a_client_that_goes_leaves_no_lease_behind() {
    steady(async || {
        const LONG: Duration = Duration::from_secs(60);
        let cluster = EtcdCluster::start(1);
        let locks = connect(cluster.url()).await;
        let guard = lock_for(&locks, "k", LONG).await;
        drop(locks);
        assert!(guard.is_held(), "a hold outlives its client");
        assert_eq!(leases(&cluster).len(), 1);
        drop(guard);
        no_lease_is_left(&cluster).await;
    });
}

#[test]
fn a_client_that_is_shut_down_leaves_no_lease_behind() {
    steady(async || {
        const LONG: Duration = Duration::from_secs(60);
        let cluster = EtcdCluster::start(1);
        let locks = connect(cluster.url()).await;
        let guard = lock_for(&locks, "k", LONG).await;
        locks.shutdown(PROMPT).await.unwrap();
        assert!(!guard.is_held());
        no_lease_is_left(&cluster).await;
    });
}

#[test]
fn a_ttl_that_servers_cannot_give_is_refused_and_the_shortest_one_named() {
    steady(async || {
        let arguments = ["--heartbeat-interval", "500", "--election-timeout", "5000"];
        let cluster = EtcdCluster::start_with(1, &arguments);
        let locks = connect(cluster.url()).await;
        let shortest = *locks.capabilities().ttl.start();
        assert_eq!(shortest, Duration::from_secs(8), "one and a half of 5 s");
        let request = LockRequest::exclusive("k")
            .unwrap()
            .with_ttl(shortest - Duration::from_secs(1));
        let error = locks.acquire(request).await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Unsupported);
        let told = "ttl 7 s is out of range for etcd: choose one from 8 s to 24 h";
        assert!(error.to_string().ends_with(told), "{error}");
        let guard = lock_for(&locks, "k", shortest).await;
        assert!(guard.is_held() && locks.try_lock("k").await.unwrap().is_none());
    });
}
