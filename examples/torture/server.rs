//! A store of our own, which may be tormented.

use lock_testkit::servers::{EtcdCluster, RedisServer, SqlServer, SqlVendor, ZooKeeperServer};

use crate::stage::locks::scheme;
use crate::stage::problem::Problem;

/// How many members of etcd and ZooKeeper there are.
pub(crate) const MEMBERS: usize = 3;

/// What a member of etcd that is killed again and again has to read each time before it serves is kept short:
/// the log behind the last snapshot, and the past of the keys.
const ETCD: [&str; 6] = [
    "--snapshot-count",
    "5000",
    "--auto-compaction-mode",
    "revision",
    "--auto-compaction-retention",
    "10000",
];

/// A server, or several that are one store.
#[derive(Debug)]
pub(crate) enum Server {
    Redis(RedisServer),
    /// With a lease for each lock.
    SqlLeases(SqlServer),
    /// With an open transaction for each lock.
    SqlRows(SqlServer),
    Etcd(EtcdCluster),
    ZooKeeper(ZooKeeperServer),
}

impl Server {
    /// Starts one of the kind that `url` names; the URL of it, with the settings of `url`.
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
        // It blocks for the time that it takes, and panics when something is wrong with the installation.
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
