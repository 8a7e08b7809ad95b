//! etcd as child processes: a cluster of one or several members.

mod cluster;
mod http;
mod member;

pub use cluster::EtcdCluster;
pub use member::EtcdMember;
