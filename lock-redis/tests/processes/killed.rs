//! Holders that are killed: the others get in when the ttl is over, whatever else is renewed.

use std::time::Duration;

use lock_core::{DistributedLock, DistributedLockExt, LockRequest, Mode};
use lock_testkit::eventually;
use lock_testkit::servers::RedisServer;
use tokio::time::{Instant, timeout};

use crate::child::Child;
use crate::{connect, take};

const TTL: Duration = Duration::from_secs(3);

/// What a waiter may take longer than the ttl: it looks again each second at the latest, and the
/// machine may be busy.
const SLACK: Duration = Duration::from_secs(6);

/// A child that holds `key`, renewed like any other hold.
fn holder(server: &RedisServer, mode: &str, key: &str) -> (Child, u64) {
    let role = format!("hold {mode} {key} {}", TTL.as_millis());
    let mut child = Child::start(server, &role);
    let token = child.says().parse().expect("its token");
    (child, token)
}

#[tokio::test(flavor = "multi_thread")]
async fn a_killed_holder_blocks_for_its_ttl_and_no_longer() {
    let server = RedisServer::start();
    let locks = connect(server.url()).await;
    let (mut child, token) = holder(&server, "exclusive", "k");
    let mut waiting = Box::pin(locks.lock("k"));
    let early = timeout(TTL * 3 / 2, &mut waiting).await;
    assert!(early.is_err(), "a living holder is renewed: {early:?}");
    child.kill();
    let killed = Instant::now();
    let next = timeout(TTL + SLACK, waiting).await;
    let next = next.expect("a killed holder is waited out").unwrap();
    assert!(next.token().value() > token);
    let took = killed.elapsed();
    assert!(took > TTL / 2, "granted {took:?} after the kill");
}

/// How many of the holders of `key` count by now.
fn living_holders(server: &RedisServer, key: &str) -> Option<i64> {
    let count = "local now = redis.call('TIME')
        return redis.call('ZCOUNT', KEYS[1], now[1] * 1000 + math.floor(now[2] / 1000), '+inf')";
    let reply = server.client().command(&["EVAL", count, "1", key]);
    reply.expect("the server runs").integer()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_living_reader_does_not_keep_a_killed_one_alive() {
    let server = RedisServer::start();
    let locks = connect(server.url()).await;
    let living = take(&locks, "k", Mode::Shared, TTL).await;
    let (mut child, _) = holder(&server, "shared", "k");
    assert_eq!(living_holders(&server, "k"), Some(2));
    child.kill();
    let limit = TTL + SLACK;
    let alone = || async { living_holders(&server, "k") == Some(1) };
    eventually(limit, "the killed reader is over", alone).await;
    assert!(living.is_held(), "it took the living one along");
    assert!(locks.try_lock("k").await.unwrap().is_none());
    living.release().await.unwrap();
    assert!(locks.try_lock("k").await.unwrap().is_some());
}

/// The key goes on, since another permit is renewed: nothing tells the waiter of the change.
#[tokio::test(flavor = "multi_thread")]
async fn a_killed_permit_comes_back_beside_a_living_one() {
    let server = RedisServer::start();
    let locks = connect(server.url()).await;
    let two = Mode::permit(2).unwrap();
    let living = take(&locks, "k", two, TTL).await;
    let (mut child, token) = holder(&server, "2", "k");
    let request = LockRequest::permit("k", 2).unwrap().with_ttl(TTL);
    let mut waiting = Box::pin(locks.acquire(request));
    let early = timeout(TTL / 4, &mut waiting).await;
    assert!(early.is_err(), "both permits are taken: {early:?}");
    child.kill();
    let next = timeout(TTL + SLACK, waiting).await;
    let next = next
        .expect("the permit comes back")
        .unwrap()
        .expect("no end");
    assert!(next.token().value() > token && living.is_held());
}

/// A program that is built with `panic = "abort"` runs no destructor either.
#[tokio::test(flavor = "multi_thread")]
async fn a_program_that_aborts_blocks_for_its_ttl_and_no_longer() {
    let server = RedisServer::start();
    let locks = connect(server.url()).await;
    let mut child = Child::start(&server, &format!("abort k {}", TTL.as_millis()));
    child.says();
    let (status, _) = child.end();
    assert!(!status.success(), "{status}");
    let refused = locks.try_lock("k").await.unwrap();
    assert!(refused.is_none(), "nobody released it");
    let next = timeout(TTL + SLACK, locks.lock("k")).await;
    assert!(next.expect("the ttl frees it").unwrap().is_held());
}
