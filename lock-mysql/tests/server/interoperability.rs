//! `SELECT … FOR UPDATE` by hand, in the `mariadb` client.

use std::time::Duration;

use lock_core::{DistributedLock, DistributedLockExt, LockKey, LockRequest, Mode};
use lock_testkit::servers::{SqlServer, SqlVendor};
use lock_testkit::{assert_excluded, steady};
use tokio::time::Instant;

use crate::{BOTH, LONG, connect, exclusive, is_free, row, take, take_soon};
use lock_mysql::MySqlHold;

#[test]
fn a_transaction_by_hand_excludes_us_until_it_ends() {
    steady(async || {
        for vendor in SqlVendor::available() {
            let server = SqlServer::start(vendor);
            for hold in BOTH {
                let locks = connect(&server, hold).await;
                let key = format!("{hold:?}");
                take(&locks, &key, LONG)
                    .await
                    .release()
                    .await
                    .expect("it runs");
                let mut theirs = server.session();
                theirs.run(&format!(
                    "BEGIN; SELECT token FROM locks WHERE k = {} FOR UPDATE",
                    row(&key)
                ));
                lock_testkit::assert_excluded!(!is_free(&locks, &key).await, "{vendor:?} {hold:?}");
                let shared = locks.try_lock_shared(&key).await.expect("held is no error");
                lock_testkit::assert_excluded!(shared.is_none(), "{vendor:?} {hold:?}");
                let waiting = take_soon(&locks, exclusive(&key, LONG));
                let ending = async {
                    theirs.run("COMMIT");
                    Instant::now()
                };
                let (guard, ended) = tokio::join!(waiting, ending);
                assert!(ended.elapsed() < Duration::from_secs(2));
                guard.release().await.expect("the server runs");
            }
        }
    });
}

#[test]
fn a_row_lock_excludes_a_transaction_by_hand_until_its_release() {
    steady(async || {
        for vendor in SqlVendor::available() {
            let server = SqlServer::start(vendor);
            let locks = connect(&server, MySqlHold::Row).await;
            let guard = take(&locks, "k", LONG).await;
            let lock = format!("SELECT token FROM locks WHERE k = {} FOR UPDATE", row("k"));
            let refused = server.try_execute(&format!("{lock} NOWAIT"));
            assert!(refused.is_err(), "{vendor:?}: {refused:?}");
            let mut theirs = server.session();
            theirs.begin(&format!("BEGIN; {lock}"));
            guard.release().await.expect("the server runs");
            assert_eq!(theirs.finish().len(), 1);
            lock_testkit::assert_excluded!(!is_free(&locks, "k").await);
        }
    });
}

/// The server rolls back the smaller of two transactions in a deadlock.
#[test]
fn a_take_that_the_server_gives_up_for_a_transaction_by_hand_is_tried_again() {
    steady(async || {
        let server = SqlServer::start(SqlVendor::MariaDb);
        let locks = connect(&server, MySqlHold::Lease).await;
        let reader = locks.lock_shared("k").await.expect("it runs");
        let changes: Vec<String> = (0..100)
            .map(|number| format!("('change {number}', 0, '2025-01-01')"))
            .collect();
        let mut theirs = server.session();
        theirs.run(&format!(
        "SET SESSION TRANSACTION ISOLATION LEVEL READ COMMITTED; BEGIN; INSERT INTO locks (k, token, expires) VALUES {}; SELECT token FROM locks_holders WHERE k = {} FOR UPDATE",
        changes.join(", "),
        row("k")
    ));
        let taking = locks.lock_shared_within("k", Duration::from_secs(10));
        let meeting = async {
            // By then the take has locked the row of the key, and waits for the rows of its
            // holders.
            tokio::time::sleep(Duration::from_millis(300)).await;
            let lock = format!("SELECT token FROM locks WHERE k = {} FOR UPDATE", row("k"));
            assert_eq!(theirs.run(&lock).len(), 1, "ours was to be given up");
            theirs.run("ROLLBACK");
        };
        let (taken, ()) = tokio::join!(taking, meeting);
        let taken = taken.expect("no error reaches a caller").expect("shared");
        assert!(taken.is_held() && reader.is_held());
    });
}

#[test]
fn leases_and_row_locks_respect_each_other() {
    steady(async || {
        let server = SqlServer::start(SqlVendor::MariaDb);
        for [first, second] in [BOTH, [BOTH[1], BOTH[0]]] {
            let (holder, other) = (
                connect(&server, first).await,
                connect(&server, second).await,
            );
            let guard = take(&holder, "k", LONG).await;
            lock_testkit::assert_excluded!(
                !is_free(&other, "k").await,
                "{second:?} beside {first:?}"
            );
            lock_testkit::assert_excluded!(
                other.try_lock_shared("k").await.expect("it runs").is_none()
            );
            guard.release().await.expect("it runs");
            let shared = holder.lock_shared("k").await.expect("it runs");
            lock_testkit::assert_excluded!(
                !is_free(&other, "k").await,
                "{second:?} beside {first:?}"
            );
            shared.release().await.expect("it runs");
            let next = take_soon(&other, exclusive("k", LONG)).await;
            next.release().await.expect("it runs");
            let none = other.acquire(exclusive("k", LONG)).await.expect("it runs");
            drop(none.expect("free"));
        }
    });
}

#[test]
fn what_is_documented_for_transactions_by_hand_excludes_and_is_excluded() {
    const DOCUMENTED: &str = include_str!("../../../docs/stores/mysql.md");

    steady(async || {
        let mut blocks = DOCUMENTED
            .split("```")
            .filter_map(|part| part.strip_prefix("sql\n"));
        let recipe = blocks.find(|block| block.contains("FOR UPDATE"));
        let recipe = recipe.expect("it is documented");
        for vendor in SqlVendor::available() {
            let server = SqlServer::start(vendor);
            for hold in BOTH {
                let locks = connect(&server, hold).await;
                // The recipe also locks a missing row.
                server.execute("DELETE FROM locks");
                let mut theirs = server.session();
                assert_eq!(theirs.run(recipe), ["1"], "{vendor:?} {hold:?}");
                let key = "shop:refund/4001";
                assert_excluded!(!is_free(&locks, key).await, "{vendor:?} {hold:?}");
                assert!(is_free(&locks, "another").await, "{vendor:?} {hold:?}");
                theirs.run("COMMIT");
                let guard = take_soon(&locks, exclusive(key, LONG)).await;
                if hold == MySqlHold::Lease {
                    let free = theirs.run(recipe);
                    assert_excluded!(free == ["0"], "{vendor:?}: {free:?}");
                    theirs.run("ROLLBACK");
                }
                guard.release().await.expect("it runs");
                assert_eq!(theirs.run(recipe), ["1"], "{vendor:?} {hold:?}");
            }
        }
    });
}

/// Returns the statements that the page of the store gives to other programs.
fn recipe() -> &'static str {
    let page = include_str!("../../../docs/stores/mysql.md");
    let (_, recipe) = page
        .split_once("SET TRANSACTION")
        .expect("the page has them");
    let (recipe, _) = recipe.split_once("-- If is_free").expect("their end");
    recipe
}

#[test]
fn the_statements_for_other_programs_see_every_holder() {
    steady(async || {
        let recipe = format!("SET TRANSACTION {}", recipe());
        for vendor in SqlVendor::available() {
            let server = SqlServer::start(vendor);
            let locks = connect(&server, MySqlHold::Lease).await;
            let is_free = || server.session().run(&recipe).pop() == Some("1".to_owned());
            assert!(is_free(), "{vendor:?}: a new key");
            let key = LockKey::new("shop:refund/4001").expect("a key");
            for mode in [
                Mode::Exclusive,
                Mode::Shared,
                Mode::permit(2).expect("a permit"),
            ] {
                let request = LockRequest::new(key.clone(), mode).with_ttl(LONG);
                let guard = take_soon(&locks, request.clone()).await;
                assert_excluded!(!is_free(), "{vendor:?}: {mode:?}");
                guard.release().await.expect("the server runs");
                assert!(is_free(), "{vendor:?}: {mode:?} is released");
                let crashed = take_soon(&locks, request).await;
                for table in ["locks", "locks_holders"] {
                    server.execute(&format!("UPDATE {table} SET expires = '2025-01-01'"));
                }
                assert!(is_free(), "{vendor:?}: the ttl of {mode:?} is over");
                drop(crashed);
            }
            let rows = connect(&server, MySqlHold::Row).await;
            let guard = take_soon(&rows, LockRequest::new(key, Mode::Exclusive)).await;
            let mut theirs = server.session();
            theirs.begin(&recipe);
            guard.release().await.expect("the server runs");
            assert_eq!(
                theirs.finish().pop(),
                Some("1".to_owned()),
                "{vendor:?}: rows"
            );
        }
    });
}
