//! Holders that are killed: a lease ends with its ttl, a row lock with its connection.

use std::time::Duration;

use lock_core::{DistributedLock, DistributedLockExt, LockRequest, Mode};
use lock_mysql::MySqlHold;
use lock_testkit::servers::{SqlServer, SqlVendor};
use tokio::time::{Instant, timeout};

use crate::child::Child;
use crate::{connect, take};

const TTL: Duration = Duration::from_secs(3);

/// A child that holds `key`, renewed like any other hold.
fn holder(server: &SqlServer, hold: &str, mode: &str, key: &str) -> (Child, u64) {
    let role = format!("hold {hold} {mode} {key} {}", TTL.as_millis());
    let mut child = Child::start(server, &role);
    let token = child.says().parse().expect("its token");
    (child, token)
}

async fn granted_after_a_kill(vendor: SqlVendor, name: &str, hold: MySqlHold, limit: Duration) {
    let server = SqlServer::start(vendor);
    let locks = connect(server.url(), hold).await;
    let (mut child, token) = holder(&server, name, "exclusive", "k");
    let mut waiting = Box::pin(locks.lock("k"));
    let early = timeout(TTL * 3 / 2, &mut waiting).await;
    assert!(early.is_err(), "a living holder is renewed: {early:?}");
    child.kill();
    let killed = Instant::now();
    let next = timeout(TTL * 3, waiting).await;
    let next = next.expect("a killed holder is waited out");
    let next = next.expect("the server runs");
    assert!(next.token().value() > token);
    let took = killed.elapsed();
    assert!(took < limit, "{vendor:?} {name}: {took:?} after the kill");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_killed_holder_of_a_lease_blocks_for_its_ttl_and_no_longer() {
    for vendor in SqlVendor::available() {
        let limit = TTL + Duration::from_secs(1);
        granted_after_a_kill(vendor, "lease", MySqlHold::Lease, limit).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_killed_holder_of_a_row_lock_blocks_nobody() {
    for vendor in SqlVendor::available() {
        let limit = Duration::from_secs(1);
        granted_after_a_kill(vendor, "row", MySqlHold::Row, limit).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_killed_permit_and_a_killed_reader_come_back_beside_living_ones() {
    let server = SqlServer::start(SqlVendor::MariaDb);
    let locks = connect(server.url(), MySqlHold::Lease).await;
    let two = Mode::permit(2).expect("permits");
    let living = take(&locks, "permits", two, TTL).await;
    let reader = take(&locks, "shared", Mode::Shared, TTL).await;
    let (mut permit, token) = holder(&server, "lease", "2", "permits");
    let (mut shared, _) = holder(&server, "lease", "shared", "shared");
    let request = LockRequest::permit("permits", 2).expect("a key");
    let mut waiting = Box::pin(locks.acquire(request.with_ttl(TTL)));
    let early = timeout(TTL / 4, &mut waiting).await;
    assert!(early.is_err(), "both permits are taken: {early:?}");
    permit.kill();
    shared.kill();
    let next = timeout(TTL * 3, waiting).await;
    let next = next.expect("the permit comes back").expect("it runs");
    assert!(next.expect("no end").token().value() > token);
    assert!(living.is_held() && reader.is_held());
    assert!(locks.try_lock("shared").await.expect("it runs").is_none());
    reader.release().await.expect("it runs");
    let limit = TTL + Duration::from_secs(1);
    let next = locks.lock_within("shared", limit).await.expect("it runs");
    assert!(next.is_some(), "the killed reader is still there");
}
