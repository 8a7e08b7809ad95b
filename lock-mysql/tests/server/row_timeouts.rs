//! Without heartbeats the server ends a row lock's connection after the ttl of the present hold.
//! Earlier requests on the connection have no effect on that.

use std::time::Duration;

use lock_core::{DistributedLock, KeeperMode};
use lock_mysql::{MySqlConfig, MySqlHold, MySqlLock};
use lock_testkit::servers::{SqlServer, SqlVendor};
use lock_testkit::steady;

use tokio::runtime::{Builder, Runtime};
use tokio::time::Instant;

use crate::{LONG, connect, connect_with, exclusive, is_free, take, take_soon};

async fn on_one_connection(server: &SqlServer, keeper: KeeperMode) -> MySqlLock {
    let config = MySqlConfig::new(server.url()).with_keeper(keeper);
    connect_with(config.with_hold(MySqlHold::Row).with_connections(1)).await
}

/// Takes a lock with ttl `first`, then makes a refused request with ttl `refused`.
async fn use_before(locks: &MySqlLock, first: Duration, refused: Duration) {
    let guard = take(locks, "first", first).await;
    guard.release().await.expect("the server runs");
    let answer = locks.acquire(exclusive("held", refused)).await;
    lock_testkit::assert_excluded!(answer.expect("busy is no error").is_none());
}

fn runtime() -> Runtime {
    let mut builder = Builder::new_current_thread();
    builder.enable_all().build().expect("a runtime")
}

#[test]
fn a_refused_request_with_a_short_ttl_shortens_no_later_hold() {
    steady(async || {
        const SHORT: Duration = Duration::from_secs(1);
        for vendor in SqlVendor::available() {
            let server = SqlServer::start(vendor);
            let other = connect(&server, MySqlHold::Row).await;
            let _held = take(&other, "held", LONG).await;
            let locks = on_one_connection(&server, KeeperMode::Thread).await;
            use_before(&locks, LONG, SHORT).await;
            let guard = take(&locks, "k", LONG).await;
            // No condition to wait for: the connection must not be ended, and the server checks
            // within seconds.
            tokio::time::sleep(SHORT * 3).await;
            assert!(guard.is_held());
            lock_testkit::assert_excluded!(!is_free(&other, "k").await, "{vendor:?}");
        }
    });
}

/// No task drives the runtime of the holder, so no heartbeats are sent.
#[test]
fn a_refused_request_with_a_long_ttl_prolongs_no_later_hold() {
    const SHORT: Duration = Duration::from_secs(2);
    for vendor in SqlVendor::available() {
        let server = SqlServer::start(vendor);
        let (silent, runtime) = (runtime(), runtime());
        let other = runtime.block_on(connect(&server, MySqlHold::Row));
        let _held = runtime.block_on(take(&other, "held", LONG));
        let _guard = silent.block_on(async {
            let locks = on_one_connection(&server, KeeperMode::Caller).await;
            use_before(&locks, SHORT, LONG).await;
            take(&locks, "k", SHORT).await
        });
        let begun = Instant::now();
        let next = runtime.block_on(take_soon(&other, exclusive("k", LONG)));
        let took = begun.elapsed();
        assert!(took > SHORT / 2, "{vendor:?}: freed after {took:?}");
        assert!(took < SHORT * 2, "{vendor:?}: freed after {took:?}");
        runtime.block_on(next.release()).expect("the server runs");
    }
}
