//! Compaction, which deletes events that watches have not received.

use std::time::Duration;

use lock_core::DistributedLockExt;
use lock_testkit::servers::EtcdCluster;
use lock_testkit::steady;
use tokio::task::JoinSet;
use tokio::time::timeout;

use crate::{PROMPT, connect, keys};

/// Compacts the whole history, as an operator or etcd itself may at any time.
pub(crate) fn compact(cluster: &EtcdCluster) {
    let status = cluster.control(&["endpoint", "status", "--write-out", "json"]);
    let revision = status
        .split_once("\"revision\":")
        .and_then(|(_, rest)| rest.split(|c: char| !c.is_ascii_digit()).next());
    let mut command = cluster.control_command();
    // Fails if the history is compacted already, which has the same effect.
    let _status = command
        .args(["compact", revision.expect("it tells its revision")])
        .output()
        .expect("etcdctl runs");
}

#[test]
fn everybody_is_served_while_history_is_compacted() {
    steady(async || {
        let cluster = EtcdCluster::start(1);
        let clients = [connect(cluster.url()).await, connect(cluster.url()).await];
        let mut tasks = JoinSet::new();
        for task in 0..8 {
            let locks = clients[task % 2].clone();
            tasks.spawn(async move {
                for _ in 0..10 {
                    let guard = locks.lock("k").await.unwrap();
                    assert!(guard.is_held());
                    guard.release().await.unwrap();
                }
            });
        }
        let working = async { while tasks.join_next().await.is_some_and(|task| task.is_ok()) {} };
        let mut working = Box::pin(timeout(PROMPT * 6, working));
        loop {
            match timeout(Duration::from_millis(20), &mut working).await {
                Ok(served) => break served.expect("everybody is served"),
                Err(_) => compact(&cluster),
            }
        }
        drop(working);
        assert!(tasks.is_empty(), "a task has failed");
        assert_eq!(keys(&cluster, "k/"), Vec::<String>::new());
    });
}
