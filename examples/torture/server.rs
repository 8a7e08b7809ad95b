//! A private store, which may be tormented.

use lock_testkit::servers::{EtcdCluster, RedisServer, SqlServer, SqlVendor, ZooKeeperServer};

use crate::stage::locks::scheme;
use crate::stage::problem::Problem;

/// Number of members of etcd and ZooKeeper.
pub(crate) const MEMBERS: usize = 3;

/// Settings that shorten the log behind the last snapshot and the history of the keys.
///
/// Why: a member of etcd that is killed again and again has to read both before it serves.
const ETCD: [&str; 6] = [
    "--snapshot-count",
    "5000",
    "--auto-compaction-mode",
    "revision",
    "--auto-compaction-retention",
    "10000",
];

/// A server, or the servers of one store.
#[derive(Debug)]
pub(crate) enum Server {
    Redis(RedisServer),
    /// MySQL or MariaDB, with a lease for each lock.
    SqlLeases(SqlServer),
    /// MySQL or MariaDB, with an open transaction for each lock.
    SqlRows(SqlServer),
    Etcd(EtcdCluster),
    ZooKeeper(ZooKeeperServer),
}

impl Server {
    /// Starts a server of the kind that `url` names; returns its URL with the settings of `url`.
    pub(crate) async fn start(url: &str) -> Result<(Self, String), Problem> {
        let kind = scheme(url);
        let rows = url.contains("hold=row");
        let missing = match kind.as_str() {
            "redis" => (!RedisServer::is_available()).then_some("redis-server"),
            "mysql" => vendor().is_none().then_some("mariadb-server"),
            "etcd" => (!EtcdCluster::is_available()).then_some("etcd-server"),
            "zookeeper" => (!ZooKeeperServer::is_available())
                .then_some("libzookeeper-java and default-jre-headless"),
            _ => {
                return Err(format!(
                    "{kind}:// has no server to start: write --lock redis://, mysql://, etcd:// or zookeeper://"
                )
                .into());
            }
        };
        if let Some(package) = missing {
            return Err(format!("its server is not installed: Debian has {package}").into());
        }
        // The start blocks, and panics if the installation is broken.
        let starting = tokio::task::spawn_blocking(move || match kind.as_str() {
            "redis" => Self::Redis(RedisServer::start_with_settable_clock::<&str>(&[])),
            "mysql" => {
                let vendor = vendor().expect("it was found before");
                let server = SqlServer::start_with_settable_clock::<&str>(vendor, &[]);
                if rows {
                    Self::SqlRows(server)
                } else {
                    Self::SqlLeases(server)
                }
            }
            "etcd" => Self::Etcd(EtcdCluster::start_with(MEMBERS, &ETCD)),
            _ => Self::ZooKeeper(ZooKeeperServer::start_three()),
        });
        let server = starting.await.map_err(|_| "the server does not start")?;
        let settings = url
            .split_once('?')
            .map(|(_, settings)| format!("?{settings}"));
        let url = server.url() + &settings.unwrap_or_default();
        Ok((server, url))
    }

    fn url(&self) -> String {
        match self {
            Self::Redis(server) => server.url(),
            Self::SqlLeases(server) | Self::SqlRows(server) => server.url(),
            Self::Etcd(cluster) => cluster.url(),
            Self::ZooKeeper(ensemble) => format!("zookeeper://{}", ensemble.address()),
        }
    }
}

fn vendor() -> Option<SqlVendor> {
    let vendors = [SqlVendor::MariaDb, SqlVendor::MySql];
    vendors.into_iter().find(|vendor| vendor.is_available())
}
