//! Real servers as child processes: each on a free port of the loopback interface, with a directory
//! of its own.
//!
//! A server is stopped by its own process id when its value is dropped. Should the test process be
//! killed, its servers go with it as far as `setpriv` is installed (it is on any Debian), and its
//! files by themselves.
//!
//! Everything here blocks the calling thread, for the milliseconds that it takes, and panics with
//! a message that says what to do: it is meant for tests.

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
