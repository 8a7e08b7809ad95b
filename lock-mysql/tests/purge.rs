//! Rows of keys that nobody uses go, those in use stay, and no token ever falls behind.

use std::time::Duration;

use lock_core::{DistributedLock, DistributedLockExt, ErrorKind, LockGuard, LockRequest};
use lock_mysql::{MySqlConfig, MySqlHold, MySqlLock};
use lock_testkit::servers::{SqlServer, SqlVendor};
use lock_testkit::{eventually, steady};

const SOON: Duration = Duration::from_secs(1);
const PROMPT: Duration = Duration::from_secs(20);

async fn client(server: &SqlServer, hold: MySqlHold) -> MySqlLock {
    let config = MySqlConfig::new(server.url()).with_hold(hold);
    let locks = MySqlLock::connect(config.with_purge_after(Some(SOON))).await;
    locks.expect("the server runs")
}

async fn take(locks: &MySqlLock, key: &str) -> LockGuard {
    let request = LockRequest::exclusive(key).expect("a key");
    let answer = locks.acquire(request.waiting_at_most(PROMPT)).await;
    answer.expect("the server runs").expect("free in time")
}

async fn gone(server: &SqlServer, key: &str) {
    let count = format!("SELECT COUNT(*) FROM locks WHERE k = '{key}'");
    let what = format!("{key} purged");
    eventually(PROMPT, &what, || async { server.execute(&count) == "0" }).await;
}

#[test]
fn a_key_that_comes_back_has_greater_tokens_also_when_the_clock_was_set_back() {
    steady(async || {
        for hold in [MySqlHold::Lease, MySqlHold::Row] {
            let server = SqlServer::start_with_settable_clock::<&str>(SqlVendor::MariaDb, &[]);
            server.set_clock_ahead(Duration::from_secs(3600));
            let locks = client(&server, hold).await;
            let mut last = 0;
            for number in 0..3 {
                let guard = take(&locks, "k").await;
                let token = guard.token().value();
                assert!(token > last, "{hold:?}: {token} after {last}, {number}");
                last = token;
                guard.release().await.expect("the server runs");
                // The row has to have seen the token before the clock is set, and a row lock writes it down
                // only now and then.
                if hold == MySqlHold::Row {
                    let written = format!("UPDATE locks SET token = {} WHERE k = 'k'", token >> 14);
                    server.execute(&written);
                }
                gone(&server, "k").await;
                server.set_clock_back(Duration::from_secs(3600 * (number + 1)));
            }
        }
    });
}

#[test]
fn keys_in_use_stay() {
    steady(async || {
        for vendor in SqlVendor::available() {
            let server = SqlServer::start(vendor);
            let leases = client(&server, MySqlHold::Lease).await;
            let rows = client(&server, MySqlHold::Row).await;
            let held = [take(&leases, "leased").await, take(&rows, "locked").await];
            let shared = rows.acquire(LockRequest::shared("read").expect("a key"));
            let shared = shared.await.expect("the server runs").expect("free");
            // Several times over, so that those in use had every chance to go, too.
            for number in 0..4 {
                let key = format!("unused/{number}");
                take(&leases, &key).await.release().await.expect("it runs");
                gone(&server, &key).await;
            }
            let kept = "SELECT COUNT(*) FROM locks WHERE k IN ('leased', 'locked', 'read')";
            assert_eq!(server.execute(kept), "3", "{vendor:?}");
            for guard in held.into_iter().chain([shared]) {
                assert!(guard.is_held(), "{vendor:?}: {:?}", guard.key());
                guard.release().await.expect("the server runs");
            }
        }
    });
}

#[test]
fn holders_that_died_together_with_their_key_go_with_its_row() {
    steady(async || {
        let server = SqlServer::start(SqlVendor::MariaDb);
        let locks = client(&server, MySqlHold::Lease).await;
        server.execute(
        "INSERT INTO locks (k, mode, token, expires) VALUES ('k', 's', 1, UTC_TIMESTAMP(6) - INTERVAL 1 HOUR);
         INSERT INTO locks_holders (k, owner, token, ttl, expires) VALUES ('k', x'00', 1, 1, UTC_TIMESTAMP(6) - INTERVAL 1 HOUR)",
    );
        gone(&server, "k").await;
        assert_eq!(server.execute("SELECT COUNT(*) FROM locks_holders"), "0");
        drop(locks);
    });
}

/// A key that is taken and given back all the time, while it is purged all the time.
#[test]
fn a_purge_in_the_middle_of_everything_lets_nobody_in_twice() {
    steady(async || {
        let server = SqlServer::start(SqlVendor::MariaDb);
        let [a, b] = [
            client(&server, MySqlHold::Lease).await,
            client(&server, MySqlHold::Row).await,
        ];
        let mut last = 0;
        for _ in 0..200 {
            for locks in [&a, &b] {
                let guard = take(locks, "k").await;
                let token = guard.token().value();
                assert!(token > last, "{token} after {last}");
                last = token;
                guard.release().await.expect("the server runs");
                // As if it had been unused for long, so that any round may take it.
                server.execute("UPDATE locks SET expires = '2020-01-01' WHERE k = 'k'");
            }
        }
    });
}

#[tokio::test]
async fn keys_are_kept_for_a_second_at_least() {
    let config = MySqlConfig::new("mysql://root@127.0.0.1:9/locks");
    let config = config.with_purge_after(Some(Duration::from_millis(999)));
    let error = MySqlLock::connect(config).await.expect_err("too short");
    assert_eq!(error.kind(), ErrorKind::Config);
    assert!(error.to_string().contains("purge_after"), "{error}");
}

#[test]
fn a_client_that_is_gone_purges_nothing_any_more() {
    steady(async || {
        let server = SqlServer::start(SqlVendor::MariaDb);
        let locks = client(&server, MySqlHold::Lease).await;
        locks
            .lock("k")
            .await
            .expect("free")
            .release()
            .await
            .expect("it runs");
        drop(locks);
        let connected = "SELECT COUNT(*) FROM information_schema.processlist WHERE id <> CONNECTION_ID() AND user = 'root'";
        let what = "all connections closed";
        eventually(PROMPT, what, || async { server.execute(connected) == "0" }).await;
    });
}
