//! Leases that belong to another owner, or are over.

use std::time::Duration;

use lock_core::backend::Released;
use lock_core::{DistributedLock, KeeperMode, LockRequest, LossReason};
use lock_mysql::{MySqlConfig, MySqlHold};
use lock_testkit::servers::{SqlServer, SqlVendor};
use lock_testkit::steady;
use tokio::runtime::Builder;
use tokio::time::{sleep, timeout};

use crate::{LONG, PROMPT, connect, connect_with, is_free, row, take};

const TTL: Duration = Duration::from_secs(2);

#[test]
fn a_renewal_leaves_the_next_holder_alone() {
    steady(async || {
        let server = SqlServer::start(SqlVendor::MariaDb);
        let locks = connect(&server, MySqlHold::Lease).await;
        let guard = take(&locks, "k", TTL).await;
        let row = row("k");
        // A single renewal would extend this lease by an hour.
        server.execute(&format!(
        "UPDATE locks SET owner = x'000000000000000000000000000000ff', ttl = 3600000000, expires = UTC_TIMESTAMP(6) + INTERVAL 1 MINUTE WHERE k = {row}"
    ));
        let lost = timeout(PROMPT, guard.lost()).await.expect("it is told");
        assert_eq!(lost, LossReason::Removed);
        let released = guard.release().await.expect("the server runs");
        assert_eq!(released, Released::AlreadyLost);
        let left = server.execute(&format!(
            "SELECT TIMESTAMPDIFF(SECOND, UTC_TIMESTAMP(6), expires) FROM locks WHERE k = {row}"
        ));
        let left: i64 = left.parse().expect("a number");
        assert!((1..=60).contains(&left), "{left} s");
    });
}

/// No task drives the runtime of the second reader, so the keeper does not renew it.
#[test]
fn a_reader_that_dies_early_leaves_the_others_in() {
    let server = SqlServer::start(SqlVendor::MariaDb);
    let runtime = || Builder::new_current_thread().enable_all().build();
    let (silent, runtime) = (runtime().expect("one"), runtime().expect("another"));
    let shared = |ttl| {
        let request = LockRequest::shared("k").expect("a key");
        request.with_ttl(ttl).without_waiting()
    };
    runtime.block_on(async {
        let locks = connect(&server, MySqlHold::Lease).await;
        let living = locks.acquire(shared(LONG)).await.expect("it runs");
        let _dying = std::thread::scope(|scope| {
            let dying = scope.spawn(|| {
                silent.block_on(async {
                    let config = MySqlConfig::new(server.url());
                    let locks = connect_with(config.with_keeper(KeeperMode::Caller)).await;
                    locks.acquire(shared(TTL)).await.expect("it runs")
                })
            });
            dying.join().expect("it is shared")
        });
        sleep(TTL * 3 / 2).await;
        lock_testkit::assert_excluded!(!is_free(&locks, "k").await, "a reader is in");
        assert!(living.expect("free").is_held());
    });
}
