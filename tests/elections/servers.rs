//! The servers of the elections.

use lock_testkit::steady;

use crate::round::Store;

#[cfg(feature = "redis")]
#[test]
fn redis() {
    use lock_testkit::servers::RedisServer;

    steady(async || {
        let server = RedisServer::start();
        let (url, port) = (server.url(), server.port());
        Store { url, port }.elects("redis").await;
    });
}

#[cfg(feature = "mysql")]
#[test]
fn mysql() {
    use lock_testkit::servers::{SqlServer, SqlVendor};

    steady(async || {
        let server = SqlServer::start(SqlVendor::MariaDb);
        let (url, port) = (server.url(), server.port());
        Store { url, port }.elects("mysql").await;
    });
}

#[cfg(feature = "etcd")]
#[test]
fn etcd() {
    use lock_testkit::servers::EtcdCluster;

    steady(async || {
        let cluster = EtcdCluster::start(1);
        let (url, port) = (cluster.url(), cluster.first().port());
        Store { url, port }.elects("etcd").await;
    });
}

#[cfg(feature = "zookeeper")]
#[test]
fn zookeeper() {
    use lock_testkit::servers::ZooKeeperServer;

    steady(async || {
        let server = ZooKeeperServer::start();
        let url = format!("zookeeper://{}", server.address());
        let port = server.member(0).port();
        Store { url, port }.elects("zookeeper").await;
    });
}
