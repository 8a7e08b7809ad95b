//! Private servers with the default settings for durability.
//!
//! A store that writes to the disk by default does so here.

use std::time::Duration;

use lock_testkit::servers::{MeasuredServer, Product};
use tokio::time::Instant;

use crate::contender::Kind;
use crate::stage::problem::Problem;

/// A server that ends with this value.
#[derive(Debug)]
pub(crate) struct Server {
    pub(crate) url: String,
    pub(crate) pid: u32,
    /// Time from the start of the process until the server answered.
    pub(crate) ready_after: Duration,
    _server: MeasuredServer,
}

/// Returns the reason why a kind of store cannot be compared, if any.
pub(crate) fn missing(kind: Kind) -> Option<String> {
    let (feature, is_compiled_in) = match kind {
        Kind::Memory => return None,
        Kind::Redis => ("redis", cfg!(feature = "redis")),
        Kind::MysqlLease | Kind::MysqlRow => ("mysql", cfg!(feature = "mysql")),
        Kind::Etcd => ("etcd", cfg!(feature = "etcd")),
        Kind::ZooKeeper => ("zookeeper", cfg!(feature = "zookeeper")),
    };
    if !is_compiled_in {
        return Some(format!("not compiled in: add --features {feature}"));
    }
    let packages = product(kind)?.missing()?;
    Some(format!(
        "its server is not installed: Debian has {packages}"
    ))
}

/// Starts a server of a kind that is not [missing].
pub(crate) async fn start(kind: Kind) -> Result<Server, Problem> {
    let product = product(kind).ok_or("memory has no server")?;
    // The start blocks, and panics if the installation is broken.
    let starting = tokio::task::spawn_blocking(move || {
        let begin = Instant::now();
        let server = MeasuredServer::start(product);
        let row = kind == Kind::MysqlRow;
        let hold = if row { "?hold=row" } else { "" };
        Server {
            url: format!("{}{hold}", server.url()),
            pid: server.pid(),
            ready_after: begin.elapsed(),
            _server: server,
        }
    });
    starting
        .await
        .map_err(|_| format!("the server of {} does not start", kind.name()).into())
}

fn product(kind: Kind) -> Option<Product> {
    Some(match kind {
        Kind::Memory => return None,
        Kind::Redis => Product::Redis,
        Kind::MysqlLease | Kind::MysqlRow => Product::Sql,
        Kind::Etcd => Product::Etcd,
        Kind::ZooKeeper => Product::ZooKeeper,
    })
}
