//! Servers of the kit with their usual defaults, and their counters of requests.

#[cfg(feature = "etcd")]
use lock_testkit::servers::EtcdCluster;
#[cfg(feature = "redis")]
use lock_testkit::servers::RedisServer;
#[cfg(feature = "zookeeper")]
use lock_testkit::servers::ZooKeeperServer;
#[cfg(feature = "mysql")]
use lock_testkit::servers::{SqlServer, SqlVendor};

/// A running server.
pub(crate) struct Crowded {
    pub(crate) name: &'static str,
    pub(crate) url: String,
    /// Maximum requests a second of one client with waiters while nothing changes.
    pub(crate) idle_limit: f64,
    requests: Box<dyn Fn() -> u64>,
}

impl Crowded {
    /// Returns the number of requests that the server has ever received.
    pub(crate) fn requests(&self) -> u64 {
        (self.requests)()
    }

    /// Returns the URL with `settings` as its query.
    pub(crate) fn url_with(&self, settings: &str) -> String {
        let mark = if self.url.contains('?') { '&' } else { '?' };
        if settings.is_empty() {
            self.url.clone()
        } else {
            format!("{}{mark}{settings}", self.url)
        }
    }
}

#[cfg(feature = "redis")]
pub(crate) fn redis() -> Crowded {
    let server = RedisServer::start();
    Crowded {
        name: "redis",
        url: server.url(),
        idle_limit: 5.0,
        requests: Box::new(move || {
            let mut client = server.client();
            let said = client.command(&["INFO", "commandstats"]);
            let said = said.expect("it is running").text().expect("text");
            // A request is a script. The commands inside a script are no requests.
            let scripts = said.lines().filter(|line| line.starts_with("cmdstat_eval"));
            let calls = scripts.filter_map(|line| {
                let (_, calls) = line.split_once("calls=")?;
                calls.split(',').next()?.parse::<u64>().ok()
            });
            calls.sum()
        }),
    }
}

#[cfg(feature = "mysql")]
pub(crate) fn mysql_leases() -> Crowded {
    mysql("mysql lease", "hold=lease", 25.0)
}

#[cfg(feature = "mysql")]
pub(crate) fn mysql_rows() -> Crowded {
    mysql("mysql row", "hold=row", 5.0)
}

#[cfg(feature = "mysql")]
fn mysql(name: &'static str, hold: &str, idle_limit: f64) -> Crowded {
    let vendor = *SqlVendor::available().first().expect("an SQL server");
    let server = SqlServer::start(vendor);
    let url = format!("{}?{hold}", server.url());
    let session = std::cell::RefCell::new(server.session());
    Crowded {
        name,
        url,
        idle_limit,
        requests: Box::new(move || {
            // The closure keeps the server running.
            let _running = &server;
            let said = session
                .borrow_mut()
                .run("SHOW GLOBAL STATUS LIKE 'Questions'");
            let count = said
                .iter()
                .find_map(|line| line.split_whitespace().last()?.parse().ok());
            count.expect("a number")
        }),
    }
}

#[cfg(feature = "etcd")]
pub(crate) fn etcd() -> Crowded {
    let cluster = EtcdCluster::start(1);
    Crowded {
        name: "etcd",
        url: cluster.url(),
        idle_limit: 5.0,
        requests: Box::new(move || cluster.first().figure("grpc_server_msg_received_total") as u64),
    }
}

#[cfg(feature = "zookeeper")]
pub(crate) fn zookeeper() -> Crowded {
    let server = ZooKeeperServer::start();
    Crowded {
        name: "zookeeper",
        url: format!("zookeeper://{}", server.address()),
        idle_limit: 5.0,
        requests: Box::new(move || {
            let received = server.member(0).figure("zk_packets_received");
            received.expect("it serves")
        }),
    }
}
