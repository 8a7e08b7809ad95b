//! Tests of MySQL and MariaDB specifics, on real servers.

mod blocked;
mod by_hand;
mod cancellation;
mod clocks;
mod crowds;
mod driver;
mod exhausted;
mod holders;
mod interoperability;
mod leased;
mod outages;
mod owners;
mod queues;
mod read_only;
mod refusals;
mod restarts;
mod row_timeouts;
mod runtimes;
mod schema;
mod sessions;
mod tokens;

use std::time::Duration;

use lock_core::{DistributedLock, LockGuard, LockRequest, Wait};
use lock_mysql::{MySqlConfig, MySqlHold, MySqlLock};
use lock_testkit::answered;
use lock_testkit::servers::SqlServer;

/// Time limit of a few round trips.
const PROMPT: Duration = Duration::from_secs(10);

/// A ttl that no test outlasts.
const LONG: Duration = Duration::from_secs(60);

const BOTH: [MySqlHold; 2] = [MySqlHold::Lease, MySqlHold::Row];

async fn connect(server: &SqlServer, hold: MySqlHold) -> MySqlLock {
    connect_with(MySqlConfig::new(server.url()).with_hold(hold)).await
}

async fn connect_with(config: MySqlConfig) -> MySqlLock {
    answered(|| MySqlLock::connect(config.clone())).await
}

fn exclusive(key: &str, ttl: Duration) -> LockRequest {
    let request = LockRequest::exclusive(key).expect("a key");
    request.with_ttl(ttl).without_waiting()
}

/// Takes a free lock, in one attempt.
async fn take(locks: &MySqlLock, key: &str, ttl: Duration) -> LockGuard {
    let taken = locks.acquire(exclusive(key, ttl)).await;
    taken.expect("the server runs").expect("free")
}

/// Takes a lock that is free or soon will be.
async fn take_soon(locks: &MySqlLock, request: LockRequest) -> LockGuard {
    let answer = locks.acquire(request.with_wait(Wait::within(PROMPT))).await;
    answer.expect("the server runs").expect("free in time")
}

async fn is_free(locks: &MySqlLock, key: &str) -> bool {
    let answer = locks.acquire(exclusive(key, LONG)).await;
    answer.expect("busy is no error").is_some()
}

/// Returns a key without a namespace as an SQL literal.
fn row(key: &str) -> String {
    let digits: String = key.bytes().map(|byte| format!("{byte:02x}")).collect();
    format!("x'{digits}'")
}
