//! Held locks that an operator removes or changes, and the time until their holder knows.

use std::time::Duration;

use lock_core::{DistributedLock, DistributedLockExt, LockGuard, LockRequest, LossReason};
use lock_redis::RedisLock;
use lock_testkit::servers::{RedisServer, RespClient};
use lock_testkit::{eventually, steady};
use tokio::time::timeout;

use crate::{connect, lock_for};

const TTL: Duration = Duration::from_secs(9);

/// Far less than the time between two renewals.
const AT_ONCE: Duration = Duration::from_secs(1);

/// Returns a hold just after a renewal, so that the next renewal is a third of the ttl away.
async fn renewed(locks: &RedisLock, admin: &mut RespClient) -> LockGuard {
    let guard = lock_for(locks, "k", TTL).await;
    let left = admin
        .command(&["PEXPIRE", "k", "4000"])
        .expect("the server runs");
    assert_eq!(left.integer(), Some(1));
    eventually(TTL, "a renewal", || {
        let left = admin
            .command(&["PTTL", "k"])
            .expect("the server runs")
            .integer();
        async move { left > Some(4000) }
    })
    .await;
    guard
}

async fn lost_at_once(guard: &LockGuard) -> LossReason {
    let lost = timeout(AT_ONCE, guard.lost());
    lost.await.expect("told at once, not at the next renewal")
}

#[test]
fn a_holder_hears_at_once_that_its_key_was_deleted() {
    steady(async || {
        let server = RedisServer::start();
        let (locks, mut admin) = (connect(server.url()).await, server.client());
        for removal in [&["DEL", "k"][..], &["RENAME", "k", "l"], &["FLUSHALL"]] {
            let guard = renewed(&locks, &mut admin).await;
            admin.command(removal).unwrap();
            assert_eq!(
                lost_at_once(&guard).await,
                LossReason::Removed,
                "{removal:?}"
            );
        }
    });
}

/// No connection with pushes has read the key yet, so the server reports nothing.
#[test]
fn a_holder_hears_soon_that_its_fresh_lock_was_deleted() {
    steady(async || {
        let server = RedisServer::start();
        let (locks, mut admin) = (connect(server.url()).await, server.client());
        for request in [
            LockRequest::exclusive("k"),
            LockRequest::shared("k"),
            LockRequest::permit("k", 2),
        ] {
            let request = request.unwrap().with_ttl(TTL);
            let guard = locks.acquire(request).await.unwrap().expect("free");
            admin.command(&["DEL", "k"]).unwrap();
            let reason = lost_at_once(&guard).await;
            assert_eq!(reason, LossReason::Removed, "{:?}", guard.mode());
        }
    });
}

#[test]
fn a_holder_hears_at_once_that_its_key_is_somebody_elses() {
    steady(async || {
        let server = RedisServer::start();
        let (locks, mut admin) = (connect(server.url()).await, server.client());
        let guard = renewed(&locks, &mut admin).await;
        admin
            .command(&["SET", "k", "theirs", "PX", "60000"])
            .unwrap();
        assert_eq!(lost_at_once(&guard).await, LossReason::Removed);
        drop(guard);
        assert!(
            locks.try_lock("k").await.unwrap().is_none(),
            "theirs was removed"
        );
    });
}

#[test]
fn an_expiry_that_was_taken_away_is_put_back_at_once() {
    steady(async || {
        let server = RedisServer::start();
        let (locks, mut admin) = (connect(server.url()).await, server.client());
        let guard = renewed(&locks, &mut admin).await;
        assert_eq!(admin.command(&["PERSIST", "k"]).unwrap().integer(), Some(1));
        eventually(AT_ONCE, "an expiry again", || {
            let left = admin.command(&["PTTL", "k"]).unwrap().integer();
            async move { left > Some(0) }
        })
        .await;
        assert!(guard.is_held());
    });
}
