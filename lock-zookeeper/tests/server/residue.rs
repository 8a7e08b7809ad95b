//! Names that are no longer used leave no nodes.

use std::time::Duration;

use lock_core::DistributedLockExt;
use lock_testkit::servers::ZooKeeperServer;
use lock_testkit::{eventually, steady};
use lock_zookeeper::zookeeper_client::{Acls, CreateMode};
use tokio::task::JoinSet;
use tokio::time::timeout;

use crate::{PROMPT, admin, children, connect};

const NAMES: usize = 10_000;
const TASKS: usize = 50;

#[test]
fn ten_thousand_names_used_once_leave_no_node() {
    steady(async || {
        let server = ZooKeeperServer::start();
        let locks = connect(&server, "/residue").await;
        let mut tasks = JoinSet::new();
        for task in 0..TASKS {
            let locks = locks.clone();
            tasks.spawn(async move {
                for number in (task..NAMES).step_by(TASKS) {
                    let guard = locks.lock(&format!("group/{number}")).await.unwrap();
                    // Releases that a busy server does not confirm in time leave no nodes either.
                    let _unconfirmed = guard.release().await;
                }
            });
        }
        while let Some(ended) = tasks.join_next().await {
            ended.unwrap();
        }
        let admin = admin(&server).await;
        eventually(6 * PROMPT, "nothing is left but the chroot", || async {
            children(&admin, "/residue").await.is_empty()
        })
        .await;
        let ephemerals = server.member(0).figure("zk_ephemerals_count");
        assert_eq!(ephemerals, Some(0));
    });
}

#[test]
fn new_names_that_are_given_up_at_any_moment_leave_no_node() {
    steady(async || {
        let server = ZooKeeperServer::shared();
        let locks = connect(server, "/given-up").await;
        locks.lock("warm").await.unwrap().release().await.unwrap();
        for number in 0..200 {
            let limit = Duration::from_micros(number * 25);
            drop(timeout(limit, locks.lock(&format!("{number}/k"))).await);
        }
        let admin = admin(server).await;
        eventually(3 * PROMPT, "nothing is left but the chroot", || async {
            children(&admin, "/given-up").await.is_empty()
        })
        .await;
    });
}

#[test]
fn nodes_of_others_stay() {
    steady(async || {
        let server = ZooKeeperServer::shared();
        let admin = admin(server).await;
        let persistent = CreateMode::Persistent.with_acls(Acls::anyone_all());
        for node in ["/others", "/others/theirs"] {
            admin.create(node, &[], &persistent).await.unwrap();
        }
        let locks = connect(server, "/others").await;
        let theirs = locks.lock("theirs").await.unwrap();
        let ours = locks.lock("ours").await.unwrap();
        theirs.release().await.unwrap();
        ours.release().await.unwrap();
        eventually(PROMPT, "our node has gone", || async {
            children(&admin, "/others").await == ["theirs"]
        })
        .await;
    });
}

#[test]
fn a_name_that_is_used_again_and_again_loses_no_claim_to_the_clean_up() {
    steady(async || {
        let server = ZooKeeperServer::shared();
        let [first, second] = [
            connect(server, "/busy").await,
            connect(server, "/busy").await,
        ];
        // Each lock is requested at the moment in which the other client removes the empty node.
        for _ in 0..6 {
            for locks in [&first, &second] {
                locks.lock("k").await.unwrap().release().await.unwrap();
                tokio::time::sleep(Duration::from_millis(550)).await;
            }
        }
    });
}

#[test]
fn refused_tries_leave_no_node_and_write_nothing() {
    steady(async || {
        let server = ZooKeeperServer::start();
        let [holder, trying] = [
            connect(&server, "/tries").await,
            connect(&server, "/tries").await,
        ];
        let guard = holder.lock("k").await.unwrap();
        lock_testkit::assert_excluded!(trying.try_lock("k").await.unwrap().is_none());
        let admin = admin(&server).await;
        let before = admin.check_stat("/tries/k").await.unwrap().unwrap();
        for _ in 0..1_000 {
            lock_testkit::assert_excluded!(trying.try_lock("k").await.unwrap().is_none());
        }
        let after = admin.check_stat("/tries/k").await.unwrap().unwrap();
        assert_eq!(after.cversion, before.cversion, "nodes came and went");
        assert_eq!(after.num_children, 1);
        guard.release().await.unwrap();
        let guard = trying.try_lock("k").await.unwrap();
        assert!(guard.is_some(), "it is free now");
    });
}
