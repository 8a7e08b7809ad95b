//! Tests with other processes and other leaders. The conformance cases have the tests with
//! processes on any store.

mod killed;

use lock_etcd::{EtcdConfig, EtcdLock};
use lock_testkit::answered;

async fn connect(url: impl Into<String>) -> EtcdLock {
    let config = EtcdConfig::new(url);
    answered(|| EtcdLock::connect(config.clone())).await
}

lock_testkit::roles!(connect);
