//! Fencing tokens after losses of the server's memory.

use std::time::Duration;

use lock_core::{DistributedLock, DistributedLockExt, FencingToken, Namespace};
use lock_redis::{RedisConfig, RedisLock};
use lock_testkit::servers::{RedisServer, Reply};
use lock_testkit::steady;

use crate::connect;

async fn next_token(locks: &RedisLock) -> FencingToken {
    let guard = locks
        .lock_within("k", Duration::from_secs(10))
        .await
        .expect("the server runs")
        .expect("free");
    let token = guard.token();
    guard.release().await.expect("the server runs");
    token
}

#[test]
fn tokens_grow_over_flushall_restart_and_a_counter_set_back() {
    steady(async || {
        let server = RedisServer::start();
        let locks = connect(server.url()).await;
        let mut last = next_token(&locks).await;
        let mut assert_grown = |token: FencingToken, after: &str| {
            assert!(token > last, "{token} after {after}, {last} before");
            last = token;
        };
        assert_grown(next_token(&locks).await, "nothing");
        server.client().command(&["FLUSHALL"]).unwrap();
        assert_grown(next_token(&locks).await, "FLUSHALL");
        server.restart();
        assert_grown(next_token(&locks).await, "a restart that lost everything");
        server
            .client()
            .command(&[b"SET".as_slice(), b"\xffgrants", b"17"])
            .unwrap();
        assert_grown(next_token(&locks).await, "a counter that was set back");
        assert_grown(
            next_token(&connect(server.url()).await).await,
            "a new client",
        );
    });
}

/// The restored snapshot is older than the last grants, so its counter is too low.
#[test]
fn tokens_grow_over_the_restart_from_an_old_snapshot() {
    steady(async || {
        let server = RedisServer::start();
        let locks = connect(server.url()).await;
        next_token(&locks).await;
        assert_eq!(
            server
                .client()
                .command(&["SAVE"])
                .unwrap()
                .text()
                .as_deref(),
            Some("OK")
        );
        let mut last = next_token(&locks).await;
        for _ in 0..100 {
            last = next_token(&locks).await;
        }
        server.restart();
        let counter = server
            .client()
            .command(&[b"GET".as_slice(), b"\xffgrants"])
            .unwrap();
        let restored: u64 = counter.text().expect("restored").parse().unwrap();
        assert!(
            restored < last.value() >> 14,
            "the snapshot is not old, so this proves nothing"
        );
        let token = next_token(&locks).await;
        assert!(token > last, "{token} after the restart, {last} before");
    });
}

#[test]
fn all_locks_of_a_namespace_share_one_counter() {
    steady(async || {
        let server = RedisServer::start();
        let namespace = Namespace::new("shop").unwrap();
        let config = RedisConfig::new(server.url()).with_namespace(namespace);
        let locks = RedisLock::connect(config).await.unwrap();
        for number in 0..100 {
            locks
                .lock(&format!("k{number}"))
                .await
                .unwrap()
                .release()
                .await
                .unwrap();
            locks
                .lock_shared(&format!("s{number}"))
                .await
                .unwrap()
                .release()
                .await
                .unwrap();
        }
        assert_eq!(
            server.client().command(&["DBSIZE"]).unwrap(),
            Reply::Integer(1)
        );
        assert_eq!(locks.capabilities().backend, "redis");
    });
}
