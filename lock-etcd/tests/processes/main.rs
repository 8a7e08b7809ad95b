//! Tests that need other processes and other leaders. What processes do to a lock on any store is shown in
//! the conformance tests.

mod killed;

use lock_etcd::{EtcdConfig, EtcdLock};

async fn connect(url: impl Into<String>) -> EtcdLock {
    EtcdLock::connect(EtcdConfig::new(url))
        .await
        .expect("the cluster runs")
}

lock_testkit::roles!(connect);
