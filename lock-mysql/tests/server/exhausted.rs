//! Row locks need a connection each.

use std::time::Duration;

use lock_core::{DistributedLock, ErrorKind, Released, Wait};
use lock_mysql::{MySqlConfig, MySqlHold};
use lock_testkit::servers::{SqlServer, SqlVendor};
use lock_testkit::steady;
use tokio::time::Instant;

use crate::{LONG, connect_with, exclusive, take};

#[test]
fn a_client_whose_connections_all_hold_locks_says_so_in_time_and_releases() {
    steady(async || {
        let server = SqlServer::start(SqlVendor::MariaDb);
        let config = MySqlConfig::new(server.url()).with_hold(MySqlHold::Row);
        let locks = connect_with(config.with_connections(4)).await;
        let mut held = Vec::new();
        for number in 0..4 {
            held.push(take(&locks, &format!("k{number}"), LONG).await);
        }
        for wait in [0, 300, 1500].map(Duration::from_millis) {
            let begun = Instant::now();
            let request = exclusive("one more", LONG).with_wait(Wait::within(wait));
            let error = locks.acquire(request).await.expect_err("none is left");
            assert_eq!(error.kind(), ErrorKind::Unavailable, "{error}");
            assert!(error.to_string().contains("connections"), "{error}");
            let took = begun.elapsed();
            assert!(took < wait + Duration::from_secs(1), "{took:?} of {wait:?}");
        }
        for guard in held {
            assert_eq!(guard.release().await.expect("it runs"), Released::Released);
        }
        take(&locks, "one more", LONG)
            .await
            .release()
            .await
            .expect("it runs");
    });
}

#[test]
fn a_server_without_a_connection_left_says_so() {
    steady(async || {
        let server = SqlServer::start_with(SqlVendor::MariaDb, &["--max-connections=10"]);
        let config = MySqlConfig::new(server.url()).with_hold(MySqlHold::Row);
        let locks = connect_with(config.with_connections(30)).await;
        let (mut held, mut refused) = (Vec::new(), 0);
        for number in 0..20 {
            match locks.acquire(exclusive(&format!("k{number}"), LONG)).await {
                Ok(guard) => held.push(guard.expect("free")),
                Err(error) => {
                    assert_eq!(error.kind(), ErrorKind::Unavailable, "{error}");
                    refused += 1;
                }
            }
        }
        assert!(refused >= 10, "{refused}");
        for guard in held {
            assert_eq!(guard.release().await.expect("it runs"), Released::Released);
        }
    });
}
