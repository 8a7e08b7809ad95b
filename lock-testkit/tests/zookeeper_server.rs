//! Tests of the kit's ZooKeeper servers: start, freeze, crash, TLS and the election of a leader.

use std::time::Duration;

use lock_testkit::eventually;
use lock_testkit::servers::{Authority, ZooKeeperServer};

const PATIENCE: Duration = Duration::from_secs(30);

#[tokio::test]
async fn one_server_freezes_dies_and_comes_back_with_its_data() {
    let server = ZooKeeperServer::start();
    let member = server.member(server.leader());
    assert!(member.word("srvr").contains("Mode: standalone"));
    assert!(member.figure("zk_packets_received").is_some());
    member.freeze();
    assert_eq!(member.word("ruok"), "", "a frozen server answers");
    member.thaw();
    assert_eq!(member.word("ruok"), "imok");
    let before = member.pid();
    member.kill();
    assert_eq!(member.figure("zk_packets_received"), None);
    member.restart();
    assert_ne!(member.pid(), before);
    assert_eq!(member.word("ruok"), "imok");
}

#[tokio::test]
async fn three_members_elect_another_leader() {
    let ensemble = ZooKeeperServer::start_three();
    assert_eq!(ensemble.members().len(), 3);
    let first = ensemble.leader();
    ensemble.member(first).kill();
    eventually(PATIENCE, "another leader", || async {
        ensemble.leader() != first
    })
    .await;
    ensemble.member(first).restart();
    assert!(ensemble.member(first).word("srvr").contains("Mode: "));
}

#[tokio::test]
async fn tls_has_a_port_of_its_own() {
    let authority = Authority::new();
    let server = ZooKeeperServer::start_with_tls(&authority, &[]);
    let secure = server.tls_address().expect("it was started with TLS");
    assert_ne!(secure, server.address());
    let stream = tokio::net::TcpStream::connect(secure).await;
    assert!(stream.is_ok(), "nobody listens");
    assert_eq!(ZooKeeperServer::shared().tls_address(), None);
}
