//! No output and no log line contains a password or a private key.

#![cfg(any(
    feature = "etcd",
    feature = "mysql",
    feature = "redis",
    feature = "zookeeper"
))]

#[cfg(feature = "etcd")]
mod etcd;
mod keys;
mod life;
#[cfg(feature = "mysql")]
mod mysql;
mod printed;
#[cfg(feature = "redis")]
mod redis;
#[cfg(feature = "zookeeper")]
mod zookeeper;
