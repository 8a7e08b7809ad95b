//! Holders that are killed: a lease ends with its ttl, a row lock with its connection.

use std::time::Duration;

use lock_core::{DistributedLock, DistributedLockExt, LockRequest, Mode};
use lock_mysql::MySqlHold;
use lock_testkit::processes::{self, Child, Role};
use lock_testkit::servers::{SqlServer, SqlVendor};
use lock_testkit::steady;
use tokio::time::{Instant, timeout};

use crate::{connect, request, store, take};

const TTL: Duration = Duration::from_secs(3);

/// Longer than what a ttl could be taken for.
const LOCK_DELAY: Duration = Duration::from_secs(4);

/// A child that holds `key`, renewed like any other hold.
fn holder(server: &SqlServer, hold: MySqlHold, mode: Mode, key: &str) -> (Child, u64) {
    let request = request(key, mode, TTL);
    let mut child = Child::start(store(server, hold), &request, Role::Hold);
    let token = child.token();
    (child, token)
}

async fn granted_after_a_kill(vendor: SqlVendor, hold: MySqlHold, limit: Duration) {
    let server = SqlServer::start(vendor);
    let locks = connect(server.url(), hold).await;
    let (mut child, token) = holder(&server, hold, Mode::Exclusive, "k");
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
    assert!(took < limit, "{vendor:?} {hold:?}: {took:?} after the kill");
}

#[test]
fn a_killed_holder_of_a_lease_blocks_for_its_ttl_and_no_longer() {
    steady(async || {
        for vendor in SqlVendor::available() {
            let limit = TTL + Duration::from_secs(1);
            granted_after_a_kill(vendor, MySqlHold::Lease, limit).await;
        }
    });
}

#[test]
fn a_killed_holder_keeps_its_key_closed_for_its_lock_delay() {
    steady(async || {
        let server = SqlServer::start(SqlVendor::MariaDb);
        let locks = connect(server.url(), MySqlHold::Lease).await;
        for mode in [Mode::Exclusive, Mode::Shared, Mode::permit(1).unwrap()] {
            let request = request("k", mode, TTL).with_lock_delay(LOCK_DELAY);
            let took =
                processes::granted_after_a_kill(&locks, store(&server, MySqlHold::Lease), &request)
                    .await;
            assert!(took > TTL / 2 + LOCK_DELAY, "{mode:?}: open after {took:?}");
            let limit = TTL + LOCK_DELAY + Duration::from_secs(1);
            assert!(took < limit, "{mode:?}: closed for {took:?}");
        }
    });
}

#[test]
fn a_killed_holder_of_a_row_lock_blocks_nobody() {
    steady(async || {
        for vendor in SqlVendor::available() {
            let limit = Duration::from_secs(1);
            granted_after_a_kill(vendor, MySqlHold::Row, limit).await;
        }
    });
}

#[test]
fn a_killed_permit_and_a_killed_reader_come_back_beside_living_ones() {
    steady(async || {
        let server = SqlServer::start(SqlVendor::MariaDb);
        let locks = connect(server.url(), MySqlHold::Lease).await;
        let two = Mode::permit(2).expect("permits");
        let living = take(&locks, "permits", two, TTL).await;
        let reader = take(&locks, "shared", Mode::Shared, TTL).await;
        let (mut permit, token) = holder(&server, MySqlHold::Lease, two, "permits");
        let (mut shared, _) = holder(&server, MySqlHold::Lease, Mode::Shared, "shared");
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
        lock_testkit::assert_excluded!(locks.try_lock("shared").await.expect("it runs").is_none());
        reader.release().await.expect("it runs");
        let limit = TTL + Duration::from_secs(1);
        let next = locks.lock_within("shared", limit).await.expect("it runs");
        assert!(next.is_some(), "the killed reader is still there");
    });
}
