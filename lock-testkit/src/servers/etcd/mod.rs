//! etcd as child processes: one member, or several that agree.

mod cluster;
mod http;
mod member;

pub use cluster::EtcdCluster;
pub use member::EtcdMember;
