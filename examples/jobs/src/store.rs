//! The stores that the proof runs on.

use clap::ValueEnum;
use lock_testkit::servers::{EtcdCluster, RedisServer, SqlServer, SqlVendor, ZooKeeperServer};

/// A store with minimum holds that several processes can reach.
#[derive(Clone, Copy, Debug, ValueEnum)]
pub(crate) enum Store {
    Redis,
    Mysql,
    Etcd,
    Zookeeper,
}

/// A running server, which ends with this value.
#[derive(Debug)]
pub(crate) enum Running {
    Redis(RedisServer),
    Mysql(SqlServer),
    Etcd(EtcdCluster),
    Zookeeper(ZooKeeperServer),
}

impl Store {
    pub(crate) fn start(self) -> Running {
        match self {
            Self::Redis => Running::Redis(RedisServer::start()),
            Self::Mysql => Running::Mysql(SqlServer::start(SqlVendor::MariaDb)),
            Self::Etcd => Running::Etcd(EtcdCluster::start(1)),
            Self::Zookeeper => Running::Zookeeper(ZooKeeperServer::start()),
        }
    }
}

impl Running {
    pub(crate) fn url(&self) -> String {
        match self {
            Self::Redis(server) => server.url(),
            Self::Mysql(server) => server.url(),
            Self::Etcd(cluster) => cluster.url(),
            Self::Zookeeper(server) => format!("zookeeper://{}", server.address()),
        }
    }
}
