//! Servers for measurements.

use std::any::Any;
use std::fmt;

use super::{EtcdCluster, RedisServer, SqlServer, SqlVendor, ZooKeeperServer};

/// A server product to measure: for each store, the product that Debian has.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Product {
    /// One Redis server.
    Redis,
    /// One MariaDB server, or one MySQL server if MariaDB is missing.
    Sql,
    /// An etcd cluster of one member.
    Etcd,
    /// A ZooKeeper ensemble of one server.
    ZooKeeper,
}

/// A server for measurements: all settings that affect its speed have their defaults.
///
/// So every store writes to the disk as it does by default. Its data is in the directory for
/// temporary files. Dropping the value stops the server.
///
/// ```no_run
/// use lock_testkit::servers::{MeasuredServer, Product};
///
/// let server = MeasuredServer::start(Product::Redis);
/// println!("{} is process {}", server.url(), server.pid());
/// ```
pub struct MeasuredServer {
    url: String,
    pid: u32,
    _process: Box<dyn Any + Send + Sync>,
}

impl Product {
    /// All products.
    pub const ALL: [Self; 4] = [Self::Redis, Self::Sql, Self::Etcd, Self::ZooKeeper];

    /// Returns the Debian packages to install, or `None` if the product is installed.
    pub fn missing(self) -> Option<&'static str> {
        let (is_installed, packages) = match self {
            Self::Redis => (RedisServer::is_available(), "redis-server"),
            Self::Sql => (sql_vendor().is_some(), "mariadb-server"),
            Self::Etcd => (EtcdCluster::is_available(), "etcd-server"),
            Self::ZooKeeper => (
                ZooKeeperServer::is_available(),
                "libzookeeper-java and default-jre-headless",
            ),
        };
        (!is_installed).then_some(packages)
    }
}

impl MeasuredServer {
    /// Starts a server; blocks the thread until it serves.
    ///
    /// # Panics
    ///
    /// If the product is [missing](Product::missing), or the server does not start.
    pub fn start(product: Product) -> Self {
        match product {
            Product::Redis => {
                let server = RedisServer::start();
                Self::new(server.url(), server.pid(), server)
            }
            Product::Sql => {
                let server = SqlServer::start(sql_vendor().expect("an SQL server is installed"));
                Self::new(server.url(), server.pid(), server)
            }
            Product::Etcd => {
                // On the disk, unlike the data of test servers.
                let data = tempfile::tempdir().expect("a place for its data");
                let place = data.path().join("data");
                let arguments = ["--data-dir", place.to_str().expect("text")];
                let cluster = EtcdCluster::start_with(1, &arguments);
                Self::new(cluster.url(), cluster.first().pid(), (cluster, data))
            }
            Product::ZooKeeper => {
                let server = ZooKeeperServer::start_to_measure(&["forceSync=yes"]);
                let url = format!("zookeeper://{}", server.address());
                Self::new(url, server.member(0).pid(), server)
            }
        }
    }

    fn new(url: String, pid: u32, process: impl Any + Send + Sync) -> Self {
        Self {
            url,
            pid,
            _process: Box::new(process),
        }
    }

    /// Returns the URL for polylock, for example `redis://127.0.0.1:6379`.
    pub fn url(&self) -> &str {
        &self.url
    }

    /// Returns the process id of the server.
    pub fn pid(&self) -> u32 {
        self.pid
    }
}

impl fmt::Debug for MeasuredServer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} (process {})", self.url, self.pid)
    }
}

fn sql_vendor() -> Option<SqlVendor> {
    let vendors = [SqlVendor::MariaDb, SqlVendor::MySql];
    vendors.into_iter().find(|vendor| vendor.is_available())
}
