//! Tests of the kit's etcd servers: crash, freeze, users, TLS and the loss of a leader.

use std::time::Duration;

use lock_testkit::eventually;
use lock_testkit::servers::{Authority, EtcdCluster};

fn put(cluster: &EtcdCluster, value: &str) {
    cluster.control(&["put", "k", value]);
}

fn value(cluster: &EtcdCluster) -> String {
    let printed = cluster.control(&["get", "k", "--print-value-only"]);
    printed.trim_end().to_owned()
}

#[test]
fn one_member_keeps_its_data_over_a_crash() {
    let cluster = EtcdCluster::start(1);
    put(&cluster, "before");
    cluster.first().kill();
    cluster.first().restart();
    assert_eq!(value(&cluster), "before");
    assert_eq!(
        cluster.url(),
        format!("etcd://{}", cluster.first().endpoint())
    );
}

#[tokio::test]
async fn three_members_survive_the_loss_of_their_leader() {
    let cluster = EtcdCluster::start(3);
    put(&cluster, "before");
    let old = cluster.leader().expect("somebody leads");
    old.freeze();
    let new_leader = || async {
        let leader = cluster.leader();
        leader.is_some_and(|leader| leader.port() != old.port())
    };
    eventually(Duration::from_secs(10), "another leader", new_leader).await;
    old.thaw();
    cluster.leader().expect("somebody leads").kill();
    eventually(Duration::from_secs(10), "one more leader", || async {
        cluster.leader().is_some()
    })
    .await;
    assert_eq!(value(&cluster), "before");
}

#[test]
fn members_stay_after_a_freeze() {
    let cluster = EtcdCluster::start(1);
    let pid = cluster.first().pid();
    cluster.first().freeze();
    cluster.first().thaw();
    put(&cluster, "after");
    assert_eq!(cluster.first().pid(), pid);
    assert!(cluster.first().directory().join("log").is_file());
}

#[test]
fn users_are_let_in_by_their_password_only() {
    let cluster = EtcdCluster::start(1);
    cluster.control(&["role", "add", "locker"]);
    cluster.control(&[
        "role",
        "grant-permission",
        "locker",
        "--prefix=true",
        "readwrite",
        "k",
    ]);
    cluster.control(&["user", "add", "locker:password"]);
    cluster.control(&["user", "grant-role", "locker", "locker"]);
    cluster.enable_authentication();
    put(&cluster, "by root");
    let anonymous = std::process::Command::new("etcdctl")
        .env("ETCDCTL_API", "3")
        .args(["--endpoints", &cluster.endpoints(), "get", "k"])
        .output()
        .expect("etcdctl runs");
    assert!(!anonymous.status.success());
}

#[test]
fn a_cluster_with_tls_can_be_looked_at() {
    let authority = Authority::new();
    let cluster = EtcdCluster::start_with_tls::<&str>(&authority, &[]);
    put(&cluster, "secret");
    assert_eq!(value(&cluster), "secret");
    assert!(cluster.url().starts_with("etcds://127.0.0.1:"));
}
