//! Plain locks of foreign clients on the same server.

use std::time::Duration;

use lock_core::{DistributedLock, DistributedLockExt, ErrorKind, HolderInfo, LockRequest, Mode};
use lock_redis::RedisLock;
use lock_testkit::servers::{RedisServer, Reply};
use lock_testkit::steady;
use tokio::time::Instant;

use crate::connect;

#[test]
fn a_plain_set_excludes_us_in_every_mode_and_its_del_wakes_us() {
    steady(async || {
        let server = RedisServer::start();
        let locks = connect(server.url()).await;
        let mut other = server.client();
        assert_eq!(
            other
                .command(&["SET", "k", "theirs", "NX", "PX", "30000"])
                .unwrap(),
            Reply::Text(b"OK".into())
        );
        lock_testkit::assert_excluded!(locks.try_lock("k").await.unwrap().is_none());
        lock_testkit::assert_excluded!(locks.try_lock_shared("k").await.unwrap().is_none());
        lock_testkit::assert_excluded!(locks.try_permit("k", 5).await.unwrap().is_none());

        let waiting = locks.lock("k");
        let freeing = async {
            // Wait until the waiter has read the key on the connection that receives pushes.
            lock_testkit::eventually(
                Duration::from_secs(5),
                "the server tracks the key",
                || async { tracked_keys(&server) > 0 },
            )
            .await;
            let freed = Instant::now();
            assert_eq!(other.command(&["DEL", "k"]).unwrap().integer(), Some(1));
            freed
        };
        let (guard, freed) =
            tokio::join!(async { (waiting.await.unwrap(), Instant::now()) }, freeing);
        let (guard, granted) = guard;
        assert!(
            granted - freed < Duration::from_millis(500),
            "{:?} after the DEL",
            granted - freed
        );
        guard.release().await.unwrap();
    });
}

fn tracked_keys(server: &RedisServer) -> i64 {
    let info = server
        .client()
        .command(&["INFO", "stats"])
        .expect("the server runs")
        .text()
        .unwrap_or_default();
    let line = info
        .lines()
        .find_map(|line| line.strip_prefix("tracking_total_keys:"));
    line.and_then(|count| count.trim().parse().ok())
        .unwrap_or(0)
}

#[test]
fn our_lock_excludes_a_plain_set_in_every_mode_and_is_a_plain_string_with_an_expiry() {
    steady(async || {
        let server = RedisServer::start();
        let locks = connect(server.url()).await;
        let mut other = server.client();
        let mut set = || {
            other
                .command(&["SET", "k", "theirs", "NX", "PX", "30000"])
                .unwrap()
        };
        let exclusive = locks.lock("k").await.unwrap();
        assert_eq!(set(), Reply::Nil);
        exclusive.release().await.unwrap();
        let shared = locks.lock_shared("k").await.unwrap();
        assert_eq!(set(), Reply::Nil);
        shared.release().await.unwrap();
        let permit = locks.permit("k", 2).await.unwrap();
        assert_eq!(set(), Reply::Nil);
        permit.release().await.unwrap();

        let _exclusive = locks.lock("k").await.unwrap();
        let mut admin = server.client();
        assert_eq!(
            admin.command(&["TYPE", "k"]).unwrap().text().as_deref(),
            Some("string")
        );
        let left = admin.command(&["PTTL", "k"]).unwrap().integer().unwrap();
        assert!((28_000..=30_000).contains(&left), "{left}");
    });
}

#[test]
fn a_lock_without_an_expiry_is_waited_for_too() {
    steady(async || {
        let server = RedisServer::start();
        let locks = connect(server.url()).await;
        server
            .client()
            .command(&["SETNX", "k", "for ever"])
            .unwrap();
        let limit = Duration::from_millis(300);
        lock_testkit::assert_excluded!(locks.lock_within("k", limit).await.unwrap().is_none());
        let freeing = async { server.client().command(&["DEL", "k"]).unwrap() };
        let (guard, _) = tokio::join!(locks.lock_within("k", Duration::from_secs(10)), freeing);
        assert!(guard.unwrap().is_some());
    });
}

#[test]
fn a_key_that_is_no_lock_is_an_error_and_is_left_alone() {
    steady(async || {
        let server = RedisServer::start();
        let locks = connect(server.url()).await;
        let mut other = server.client();
        other.command(&["RPUSH", "k", "a list"]).unwrap();
        for error in [
            locks.try_lock("k").await.unwrap_err(),
            locks.try_lock_shared("k").await.unwrap_err(),
            locks.try_permit("k", 3).await.unwrap_err(),
        ] {
            assert_eq!(error.kind(), ErrorKind::Backend);
            let text = error.to_string();
            assert!(
                text.contains("holds a list") && text.contains("use another key"),
                "{text}"
            );
        }
        assert_eq!(other.command(&["LLEN", "k"]).unwrap().integer(), Some(1));
    });
}

#[test]
fn a_foreign_sorted_set_is_an_error_in_every_mode_and_is_left_alone() {
    steady(async || {
        let server = RedisServer::start();
        let locks = connect(server.url()).await;
        let mut other = server.client();
        // The score of the first set looks like a past expiry, the member of the second like a
        // reader.
        for (key, score, member) in [("board", "100", "alice"), ("jobs", "99999999999999", "sam")] {
            other.command(&["ZADD", key, score, member]).unwrap();
            for error in [
                locks.try_lock(key).await.unwrap_err(),
                locks.try_lock_shared(key).await.unwrap_err(),
                locks.try_permit(key, 3).await.unwrap_err(),
            ] {
                assert_eq!(error.kind(), ErrorKind::Backend, "{error}");
            }
            let score = other.command(&["ZSCORE", key, member]).unwrap();
            assert!(score.text().is_some(), "{member} is gone from {key}");
            assert_eq!(other.command(&["PTTL", key]).unwrap().integer(), Some(-1));
        }
    });
}

/// The claim id of a client of an earlier version.
const EARLIER: &str = "00000000000000000000000000000abc";

async fn only_holder(locks: &RedisLock, key: &str) -> HolderInfo {
    let info = locks.inspect(key).await.expect("the server runs");
    let [holder] = &info.holders[..] else {
        panic!("there is one holder: {info:?}");
    };
    holder.clone()
}

#[test]
fn what_others_have_stored_is_shown_as_far_as_it_goes() {
    steady(async || {
        let server = RedisServer::start();
        let locks = connect(server.url()).await;
        let mut admin = server.client();
        let mut run = |command: &[&str]| admin.command(command).expect("the server runs");
        run(&["SET", "theirs", "host=a pid=1 since=1", "PX", "30000"]);
        let theirs = only_holder(&locks, "theirs").await;
        assert!(theirs.foreign && theirs.pid.is_none(), "{theirs:?}");
        assert!(
            theirs
                .ttl_left
                .is_some_and(|left| left > Duration::from_secs(20))
        );

        run(&["SET", "endless", "theirs"]);
        assert_eq!(only_holder(&locks, "endless").await.ttl_left, None);

        run(&["SET", "earlier", &format!("{EARLIER}:7"), "PX", "30000"]);
        let earlier = only_holder(&locks, "earlier").await;
        assert!(!earlier.foreign && earlier.host.is_none(), "{earlier:?}");
        assert_eq!(earlier.token.map(|token| token.value()), Some(7 << 14));

        run(&["ZADD", "readers", "9999999999999", &format!("s{EARLIER}")]);
        run(&["ZADD", "readers", "1", "s0000000000000000000000000000dead"]);
        let tokens = b"readers\xfftokens".as_slice();
        let field = format!("s{EARLIER}");
        let stored = server
            .client()
            .command(&[b"HSET", tokens, field.as_bytes(), b"8"]);
        stored.expect("the server runs");
        let reader = only_holder(&locks, "readers").await;
        assert_eq!(reader.mode, Some(Mode::Shared), "the other one has expired");
        assert_eq!(reader.token.map(|token| token.value()), Some(8 << 14));
    });
}

#[test]
fn an_inspection_changes_nothing_and_wakes_nobody() {
    steady(async || {
        let server = RedisServer::start();
        let locks = connect(server.url()).await;
        let request = LockRequest::exclusive("k").expect("a key");
        let request = request.labelled("a b").expect("a label");
        let guard = locks.acquire(request).await.expect("the server runs");
        let guard = guard.expect("free");
        let value = || {
            server
                .client()
                .command(&["GET", "k"])
                .expect("it runs")
                .text()
        };
        let before = value();
        let seen = only_holder(&locks, "k").await;
        assert_eq!((seen.label.as_deref(), value()), (Some("a b"), before));
        let keys = server.client().command(&["DBSIZE"]).expect("it runs");
        assert_eq!(keys.integer(), Some(2), "the lock, and the counter");
        guard.release().await.expect("the server runs");
        assert_eq!(locks.inspect("k").await.unwrap().holders, []);
    });
}
