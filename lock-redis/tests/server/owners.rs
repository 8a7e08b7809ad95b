//! Renewals that change no hold but their own.

use std::time::Duration;

use lock_core::{LockGuard, LossReason};
use lock_testkit::servers::RedisServer;
use lock_testkit::{eventually, steady};

use crate::{connect, lock_for};

const TTL: Duration = Duration::from_millis(900);

async fn assert_removed(guard: &LockGuard) {
    let told = tokio::time::timeout(Duration::from_secs(5), guard.lost()).await;
    assert_eq!(told, Ok(LossReason::Removed));
}

#[test]
fn a_renewal_leaves_the_next_holder_alone() {
    steady(async || {
        let server = RedisServer::start();
        let locks = connect(server.url()).await;
        let mut admin = server.client();
        let stale = lock_for(&locks, "k", TTL).await;
        admin.command(&["DEL", "k"]).unwrap();
        let next = lock_for(&locks, "k", Duration::from_secs(60)).await;
        assert_removed(&stale).await;
        let left = admin.command(&["PTTL", "k"]).unwrap().integer();
        assert!(left > Some(40_000), "{left:?} ms left");
        assert!(next.is_held() && next.token() > stale.token());
    });
}

#[test]
fn a_renewal_does_not_bring_back_what_is_gone() {
    steady(async || {
        let server = RedisServer::start();
        let locks = connect(server.url()).await;
        let mut admin = server.client();
        let stale = lock_for(&locks, "k", TTL).await;
        admin.command(&["DEL", "k"]).unwrap();
        assert_removed(&stale).await;
        let left = admin.command(&["EXISTS", "k"]).unwrap().integer();
        assert_eq!(left, Some(0), "a renewal brought the lock back");
    });
}

#[test]
fn a_renewal_restores_an_expiry_that_was_removed() {
    steady(async || {
        let server = RedisServer::start();
        let locks = connect(server.url()).await;
        let guard = lock_for(&locks, "k", TTL).await;
        server.client().command(&["PERSIST", "k"]).unwrap();
        let restored = || async {
            let left = server.client().command(&["PTTL", "k"]);
            left.unwrap().integer() > Some(0)
        };
        eventually(Duration::from_secs(5), "the key expires again", restored).await;
        assert!(guard.is_held());
    });
}
