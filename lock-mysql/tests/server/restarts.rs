//! A restarted server counts its connection ids from the start.

use std::time::Duration;

use lock_core::DistributedLock;
use lock_mysql::MySqlHold;
use lock_testkit::servers::{SqlServer, SqlVendor};
use lock_testkit::steady;

use crate::{LONG, connect, exclusive, is_free, take};

#[test]
fn a_release_from_before_a_restart_ends_nobody_elses_connection() {
    steady(async || {
        for vendor in SqlVendor::available() {
            let server = SqlServer::start(vendor);
            let before = connect(&server, MySqlHold::Row).await;
            let mut guards = Vec::new();
            for number in 0..20 {
                guards.push(take(&before, &format!("before {number}"), LONG).await);
            }
            // Without a pause: the server's uptime is in whole seconds, and does not yet tell the
            // two runs apart.
            server.restart();
            let after = connect(&server, MySqlHold::Row).await;
            let mut held = Vec::new();
            for number in 0..20 {
                let request = exclusive(&format!("after {number}"), Duration::from_secs(3));
                held.push(
                    after
                        .acquire(request)
                        .await
                        .expect("it runs")
                        .expect("free"),
                );
            }
            for guard in guards {
                let _outcome = guard.release().await;
            }
            let third = connect(&server, MySqlHold::Row).await;
            for guard in &held {
                let key = guard.key().as_str();
                lock_testkit::assert_excluded!(
                    !is_free(&third, key).await,
                    "{vendor:?}: {key} was freed"
                );
            }
        }
    });
}
