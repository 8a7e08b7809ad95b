//! Tests that need other processes and other leaders. What processes do to a lock on any store is shown in
//! the conformance tests.

mod killed;

use lock_etcd::{EtcdConfig, EtcdLock};
use lock_testkit::connected;

async fn connect(url: impl Into<String>) -> EtcdLock {
    let config = EtcdConfig::new(url);
    connected(|| EtcdLock::connect(config.clone())).await
}

lock_testkit::roles!(connect);
