//! Servers with smaller limits for a request than by default.

use std::time::Duration;

use lock_core::{DistributedLockExt, LockGuard};
use lock_etcd::EtcdLock;
use lock_testkit::servers::EtcdCluster;
use lock_testkit::{eventually, steady};

use crate::{PROMPT, connect, keys, leases, lock_for};

const TTL: Duration = Duration::from_secs(10);

/// More holds than fit into one transaction of any server.
const HOLDS: usize = 300;

async fn hold_many(locks: &EtcdLock, holds: usize) -> Vec<LockGuard> {
    let mut guards = Vec::new();
    for number in 0..holds {
        guards.push(lock_for(locks, &format!("many/{number}"), TTL).await);
    }
    guards
}

fn held(guards: &[LockGuard]) -> usize {
    guards.iter().filter(|guard| guard.is_held()).count()
}

/// Restarts the leader and checks all holds: renewals read all keys, and all keys move to a new
/// lease.
async fn survive_a_leader(cluster: &EtcdCluster, guards: &[LockGuard]) {
    let former = leases(cluster);
    cluster.leader().expect("somebody leads").restart();
    let moved = || async {
        cluster.leader().is_some() && leases(cluster).iter().all(|lease| !former.contains(lease))
    };
    eventually(PROMPT, "all stand under another lease", moved).await;
    tokio::time::sleep(TTL * 3 / 2).await;
    assert_eq!(held(guards), guards.len(), "held after a change of leader");
    assert_eq!(keys(cluster, "many/").len(), guards.len());
}

#[test]
fn holds_survive_a_leader_where_transactions_are_short() {
    // With two operations, each hold moves by its own transaction, which takes long on a busy
    // machine.
    for (operations, holds) in [("16", HOLDS), ("2", HOLDS / 5)] {
        steady(async || {
            let cluster = EtcdCluster::start_with(3, &["--max-txn-ops", operations]);
            let locks = connect(cluster.url()).await;
            let guards = hold_many(&locks, holds).await;
            survive_a_leader(&cluster, &guards).await;
        });
    }
}

#[test]
fn holds_survive_a_leader_where_requests_are_small() {
    steady(async || {
        let cluster = EtcdCluster::start_with(1, &["--max-request-bytes", "2000"]);
        let locks = connect(cluster.url()).await;
        let guards = hold_many(&locks, HOLDS).await;
        survive_a_leader(&cluster, &guards).await;
    });
}

#[test]
fn servers_that_take_too_little_are_named_with_what_to_do() {
    steady(async || {
        let cluster = EtcdCluster::start_with(1, &["--max-txn-ops", "1"]);
        let locks = connect(cluster.url()).await;
        let error = locks.try_lock("k").await.unwrap_err();
        assert!(error.to_string().contains("raise --max-txn-ops"), "{error}");
    });
}
