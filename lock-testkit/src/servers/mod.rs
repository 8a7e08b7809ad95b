//! Real servers as child processes, each with a free port and a directory of its own.
//!
//! All servers listen on the loopback interface. Dropping a value stops its server, by its process
//! id. If the test process is killed, its servers end as well, provided that `setpriv` is
//! installed, as on any Debian. Their files are removed in any case.
//!
//! All functions block the calling thread while they wait, and panic with a message that says what
//! to do: they are meant for tests.
//!
//! ```no_run
//! use lock_testkit::servers::RedisServer;
//!
//! let server = RedisServer::start();
//! println!("connect to {}", server.url());
//! ```

mod authority;
mod clock;
mod etcd;
mod ground;
mod port;
mod process;
mod product;
mod redis;
mod resp;
mod server;
mod spares;
mod sql;
mod zookeeper;

pub use authority::{Authority, Identity};
pub use etcd::{EtcdCluster, EtcdMember};
pub(crate) use port::free_port;
pub use product::{MeasuredServer, Product};
pub use redis::RedisServer;
pub use resp::{Reply, RespClient};
pub use server::ServerProcess;
pub use spares::{Spare, Spares};
pub use sql::{SqlServer, SqlSession, SqlVendor};
pub use zookeeper::{ZooKeeperMember, ZooKeeperServer};
