//! The purge of unused rows: rows in use stay, and tokens keep growing.

use std::time::Duration;

use lock_core::{DistributedLock, DistributedLockExt, ErrorKind, LockGuard, LockRequest, Mode};
use lock_mysql::{MySqlConfig, MySqlHold, MySqlLock};
use lock_testkit::servers::{SqlServer, SqlVendor};
use lock_testkit::{assert_excluded, eventually, steady};

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
            for number in 0..2 {
                let guard = take(&locks, "k").await;
                let token = guard.token().value();
                assert!(token > last, "{hold:?}: {token} after {last}, {number}");
                last = token;
                guard.release().await.expect("the server runs");
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
            // The row of this key states an earlier end than its holder has.
            let late = LockRequest::shared("late").expect("a key");
            let late = leases.acquire(late).await.expect("it runs").expect("free");
            server.execute("UPDATE locks SET expires = '2020-01-01' WHERE k = 'late'");
            // Two rounds, so that the purge also had its chance to delete the rows in use.
            for number in 0..2 {
                let key = format!("unused/{number}");
                take(&leases, &key).await.release().await.expect("it runs");
                gone(&server, &key).await;
            }
            let kept = "SELECT COUNT(*) FROM locks WHERE k IN ('leased', 'locked', 'read', 'late')";
            let kept = server.execute(kept);
            assert_excluded!(kept == "4", "{vendor:?}: {kept} of 4 keys in use are left");
            for guard in held.into_iter().chain([shared, late]) {
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

/// The key is taken, released and purged all the time.
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
                // Let the row look unused for long, so that the next round may delete it.
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

/// Time limit for a round, including the wait for requests that began before it.
const AFTER_A_ROUND: Duration = Duration::from_secs(45);

#[test]
fn a_round_goes_on_until_no_unused_row_is_left() {
    steady(async || {
        for vendor in SqlVendor::available() {
            let server = SqlServer::start(vendor);
            // This setting makes a round every ten seconds.
            let config = MySqlConfig::new(server.url());
            let config = config.with_purge_after(Some(Duration::from_secs(80)));
            let locks = MySqlLock::connect(config).await.expect("it runs");
            let guard = take(&locks, "held").await;
            server.execute(
                "INSERT INTO locks (k, token, expires) WITH digits AS (SELECT 0 AS d UNION SELECT 1 UNION SELECT 2 UNION SELECT 3 UNION SELECT 4 UNION SELECT 5 UNION SELECT 6 UNION SELECT 7 UNION SELECT 8 UNION SELECT 9) SELECT CONCAT('unused/', a.d, b.d, c.d, e.d, f.d), 1, '2020-01-01' FROM digits AS a, digits AS b, digits AS c, digits AS e, digits AS f",
            );
            let count = "SELECT COUNT(*) FROM locks WHERE k <> ''";
            assert_eq!(server.execute(count), "100001");
            let begun = tokio::time::Instant::now();
            eventually(AFTER_A_ROUND, "all purged", || async {
                server.execute(count) == "1"
            })
            .await;
            println!("{vendor:?}: {:?}", begun.elapsed());
            assert!(guard.is_held());
        }
    });
}

/// The trigger delays a request between its read of the floor and its insert of the row.
#[test]
fn a_request_that_has_read_an_older_floor_is_done_before_a_row_goes() {
    // Greater than any grant number of the next decades.
    const GRANT: u64 = 1 << 48;

    steady(async || {
        for vendor in SqlVendor::available() {
            let server = SqlServer::start(vendor);
            let locks = client(&server, MySqlHold::Lease).await;
            server.execute(&format!("CREATE TRIGGER slow BEFORE INSERT ON locks FOR EACH ROW SET NEW.ttl = IF(NEW.k = 'k' AND NEW.token < {GRANT}, SLEEP(1.8), NEW.ttl)"));
            let taking = take(&locks, "k");
            let purging = async {
                tokio::time::sleep(Duration::from_millis(200)).await;
                server.execute(&format!(
                    "INSERT INTO locks (k, token, expires) VALUES ('k', {GRANT}, '2020-01-01')"
                ));
            };
            let (guard, ()) = tokio::join!(taking, purging);
            let grant = guard.token().value() >> 14;
            assert!(grant > GRANT, "{vendor:?}: {grant} after {GRANT}");
        }
    });
}

#[test]
fn who_may_not_delete_rows_of_locks_can_do_all_but_purge() {
    steady(async || {
        for vendor in SqlVendor::available() {
            let server = SqlServer::start(vendor);
            let first = client(&server, MySqlHold::Lease).await;
            take(&first, "k").await.release().await.expect("it runs");
            first
                .shutdown(Duration::from_secs(10))
                .await
                .expect("it runs");
            drop(first);
            server.execute("CREATE USER app@'127.0.0.1' IDENTIFIED BY 'p'; GRANT SELECT, INSERT, UPDATE ON locks.locks TO app@'127.0.0.1'; GRANT SELECT, INSERT, UPDATE, DELETE ON locks.locks_holders TO app@'127.0.0.1'; UPDATE locks SET expires = '2020-01-01'");
            let url = format!("mysql://app:p@127.0.0.1:{}/locks", server.port());
            let config = MySqlConfig::new(url).with_purge_after(Some(SOON));
            let locks = MySqlLock::connect(config).await.expect("no DDL is needed");
            let floor = "SELECT COUNT(*) FROM locks WHERE k = ''";
            eventually(PROMPT, "a round", || async { server.execute(floor) == "1" }).await;
            tokio::time::sleep(Duration::from_secs(7)).await;
            assert_eq!(
                server.execute("SELECT COUNT(*) FROM locks WHERE k = 'k'"),
                "1"
            );
            for mode in [
                Mode::Exclusive,
                Mode::Shared,
                Mode::permit(2).expect("a permit"),
            ] {
                let request = LockRequest::new("k".try_into().expect("a key"), mode);
                let guard = locks.acquire(request.waiting_at_most(PROMPT)).await;
                let guard = guard.expect("it may").expect("free");
                guard.release().await.expect("it may");
            }
        }
    });
}

#[test]
fn what_is_documented_for_a_purge_offline_removes_what_is_unused() {
    const DOCUMENTED: &str = include_str!("../src/permissions.md");

    steady(async || {
        for vendor in SqlVendor::available() {
            let server = SqlServer::start(vendor);
            let locks = MySqlLock::connect(MySqlConfig::new(server.url()));
            let locks = locks.await.expect("it runs");
            let held = take(&locks, "held").await;
            let read = LockRequest::shared("read").expect("a key");
            let read = locks.acquire(read).await.expect("it runs").expect("free");
            let gone = take(&locks, "gone").await;
            let grant = gone.token().value() >> 14;
            gone.release().await.expect("it runs");
            server.execute("UPDATE locks SET expires = '2020-01-01' WHERE k <> 'held'");
            let blocks = DOCUMENTED
                .split("```")
                .filter_map(|part| part.strip_prefix("sql\n"));
            let mut run = 0;
            for block in blocks.filter(|block| block.contains("-- offline")) {
                server.execute(block);
                run += 1;
            }
            assert_eq!(run, 2);
            let kept = "SELECT k FROM locks WHERE k <> '' ORDER BY k";
            assert_eq!(server.execute(kept), "held\nread", "{vendor:?}");
            assert!(held.is_held() && read.is_held());
            let floor = server.execute("SELECT token FROM locks WHERE k = ''");
            assert!(floor.parse::<u64>().expect("a number") >= grant);
        }
    });
}
