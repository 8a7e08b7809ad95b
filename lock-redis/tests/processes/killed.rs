//! Holders that are killed: the others get in when the ttl is over, whatever else is renewed.

use std::time::Duration;

use lock_core::{DistributedLock, DistributedLockExt, LockRequest, Mode};
use lock_testkit::processes::{Child, Role, granted_after_a_kill};
use lock_testkit::servers::RedisServer;
use lock_testkit::{eventually, steady};
use tokio::time::{Instant, timeout};

use crate::{connect, request, take};

const TTL: Duration = Duration::from_secs(3);

/// Longer than what a ttl could be taken for.
const LOCK_DELAY: Duration = Duration::from_secs(4);

/// What a waiter may take longer than the ttl: it looks again each second at the latest, and the
/// machine may be busy.
const SLACK: Duration = Duration::from_secs(6);

/// A child that holds `key`, renewed like any other hold.
fn holder(server: &RedisServer, mode: Mode, key: &str) -> (Child, u64) {
    let mut child = Child::start(server.url(), &request(key, mode, TTL), Role::Hold);
    let token = child.token();
    (child, token)
}

#[test]
fn a_killed_holder_blocks_for_its_ttl_and_no_longer() {
    steady(async || {
        let server = RedisServer::start();
        let locks = connect(server.url()).await;
        let (mut child, token) = holder(&server, Mode::Exclusive, "k");
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
    });
}

#[test]
fn a_killed_holder_keeps_its_key_closed_for_its_lock_delay() {
    steady(async || {
        let server = RedisServer::start();
        let locks = connect(server.url()).await;
        for mode in [Mode::Exclusive, Mode::Shared, Mode::permit(1).unwrap()] {
            let request = request("k", mode, TTL).with_lock_delay(LOCK_DELAY);
            let took = granted_after_a_kill(&locks, server.url(), &request).await;
            assert!(took > TTL / 2 + LOCK_DELAY, "{mode:?}: open after {took:?}");
            let limit = TTL + LOCK_DELAY + SLACK;
            assert!(took < limit, "{mode:?}: closed for {took:?}");
        }
    });
}

/// How many of the holders of `key` count by now.
fn living_holders(server: &RedisServer, key: &str) -> Option<i64> {
    let count = "local now = redis.call('TIME')
        return redis.call('ZCOUNT', KEYS[1], now[1] * 1000 + math.floor(now[2] / 1000), '+inf')";
    let reply = server.client().command(&["EVAL", count, "1", key]);
    reply.expect("the server runs").integer()
}

#[test]
fn a_living_reader_does_not_keep_a_killed_one_alive() {
    steady(async || {
        let server = RedisServer::start();
        let locks = connect(server.url()).await;
        let living = take(&locks, "k", Mode::Shared, TTL).await;
        let (mut child, _) = holder(&server, Mode::Shared, "k");
        assert_eq!(living_holders(&server, "k"), Some(2));
        child.kill();
        let limit = TTL + SLACK;
        let alone = || async { living_holders(&server, "k") == Some(1) };
        eventually(limit, "the killed reader is over", alone).await;
        assert!(living.is_held(), "it took the living one along");
        lock_testkit::assert_excluded!(locks.try_lock("k").await.unwrap().is_none());
        living.release().await.unwrap();
        assert!(locks.try_lock("k").await.unwrap().is_some());
    });
}

/// The key goes on, since another permit is renewed: nothing tells the waiter of the change.
#[test]
fn a_killed_permit_comes_back_beside_a_living_one() {
    steady(async || {
        let server = RedisServer::start();
        let locks = connect(server.url()).await;
        let two = Mode::permit(2).unwrap();
        // Its renewals would tell the waiter to look.
        let living = take(&locks, "k", two, TTL * 20).await;
        let (mut child, token) = holder(&server, two, "k");
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
    });
}

/// A program that is built with `panic = "abort"` runs no destructor either.
#[test]
fn a_program_that_aborts_blocks_for_its_ttl_and_no_longer() {
    steady(async || {
        let server = RedisServer::start();
        let locks = connect(server.url()).await;
        let request = request("k", Mode::Exclusive, TTL);
        let mut child = Child::start(server.url(), &request, Role::Abort);
        child.token();
        let (status, _) = child.end();
        assert!(!status.success(), "{status}");
        let refused = locks.try_lock("k").await.unwrap();
        assert!(refused.is_none(), "nobody released it");
        let next = timeout(TTL + SLACK, locks.lock("k")).await;
        assert!(next.expect("the ttl frees it").unwrap().is_held());
    });
}
