//! Users that an operator changes or removes while they hold locks.

use std::time::Duration;

use lock_core::{DistributedLockExt, ErrorKind, HandOff, LossReason};
use lock_redis::RedisLock;
use lock_testkit::servers::RedisServer;
use lock_testkit::steady;
use std::sync::Arc;
use tokio::time::Instant;

use crate::{connect, lock_for};

const TTL: Duration = Duration::from_millis(1500);

/// The largest number of refused requests for one hold until its deadline.
const REFUSALS_MAX: i64 = 100;

async fn connected(server: &RedisServer) -> RedisLock {
    let user = ["ACL", "SETUSER", "u", "on", ">p", "~*", "+@all"];
    server.client().command(&user).expect("the server runs");
    connect(format!("redis://u:p@127.0.0.1:{}", server.port())).await
}

fn statistic(server: &RedisServer, name: &str) -> i64 {
    let info = server.client().command(&["INFO", "stats"]);
    let info = info.expect("the server runs").text().unwrap_or_default();
    let value = info.lines().find_map(|line| line.strip_prefix(name));
    value
        .expect("a statistic")
        .trim()
        .parse()
        .expect("a number")
}

/// Checks that the hold ends at its deadline after few requests, and that another take fails at
/// once.
async fn assert_ends_quietly(change: &[&str], counter: &str) {
    let server = RedisServer::start();
    let locks = connected(&server).await;
    let guard = lock_for(&locks, "k", TTL).await;
    let (before, begin) = (statistic(&server, counter), Instant::now());
    let changed = server.client().command(change).expect("the server runs");
    assert!(
        changed.text().is_some() || changed.integer() == Some(1),
        "{changed:?}"
    );

    let error = locks.lock("other").await.expect_err("refused");
    assert_eq!(error.kind(), ErrorKind::Denied, "{error}");
    assert!(
        begin.elapsed() < Duration::from_millis(700),
        "{:?}",
        begin.elapsed()
    );
    assert_eq!(guard.lost().await, LossReason::Expired);
    assert!(
        begin.elapsed() < TTL + Duration::from_millis(100),
        "{:?}",
        begin.elapsed()
    );
    tokio::time::sleep(TTL).await;
    let refusals = statistic(&server, counter) - before;
    assert!(refusals < REFUSALS_MAX, "{refusals} of {counter}");
}

#[test]
fn a_user_who_is_removed_loses_its_holds_at_their_deadline() {
    steady(async || {
        assert_ends_quietly(&["ACL", "DELUSER", "u"], "total_connections_received:").await;
    });
}

#[test]
fn permissions_that_are_withdrawn_end_holds_at_their_deadline() {
    steady(async || {
        let withdrawn = ["ACL", "SETUSER", "u", "-@all"];
        assert_ends_quietly(&withdrawn, "total_error_replies:").await;
    });
}

#[test]
fn a_new_password_ends_nothing_before_the_connection_breaks() {
    steady(async || {
        let server = RedisServer::start();
        let locks = connected(&server).await;
        let guard = lock_for(&locks, "k", TTL).await;
        let mut admin = server.client();
        admin
            .command(&["ACL", "SETUSER", "u", "resetpass", ">new"])
            .unwrap();
        let lost = tokio::time::timeout(TTL * 2, guard.lost()).await;
        assert!(lost.is_err(), "{lost:?}");
        admin.command(&["CLIENT", "KILL", "USER", "u"]).unwrap();
        assert_eq!(guard.lost().await, LossReason::Expired);
        let error = locks.try_lock("k").await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Denied, "{error}");
    });
}

#[test]
fn whoever_waits_behind_a_release_that_is_denied_is_told_at_once() {
    steady(async || {
        let server = RedisServer::start();
        let locks = Arc::new(connected(&server).await);
        let locks = HandOff::new(locks, HandOff::DEFAULT_BUDGET);
        let guard = locks.lock("k").await.unwrap();
        let withdrawn = ["ACL", "SETUSER", "u", "-@all"];
        server.client().command(&withdrawn).unwrap();
        drop(guard);
        let begin = Instant::now();
        let error = locks.lock("k").await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Denied, "{error}");
        assert!(
            begin.elapsed() < Duration::from_millis(700),
            "{:?}",
            begin.elapsed()
        );
    });
}
