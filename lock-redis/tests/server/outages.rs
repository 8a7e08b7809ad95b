//! Servers that restart, lose scripts, close connections or stand still.

use std::pin::Pin;
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use lock_core::backend::Released;
use lock_core::{DistributedLock, DistributedLockExt, ErrorKind, LockRequest, LossReason};
use lock_testkit::servers::RedisServer;
use lock_testkit::steady;
use tokio::time::Instant;

use crate::{connect, lock_for, tracks_a_key};

#[test]
fn forgotten_scripts_are_sent_again() {
    steady(async || {
        let server = RedisServer::start();
        let locks = connect(server.url()).await;
        let mut admin = server.client();
        for _ in 0..20 {
            admin.command(&["SCRIPT", "FLUSH"]).unwrap();
            let guard = lock_for(&locks, "k", Duration::from_secs(1)).await;
            let shared = locks.lock_shared("s").await.unwrap();
            admin.command(&["SCRIPT", "FLUSH"]).unwrap();
            assert_eq!(shared.release().await.unwrap(), Released::Released);
            assert_eq!(guard.release().await.unwrap(), Released::Released);
        }
        let held = lock_for(&locks, "k", Duration::from_secs(1)).await;
        for _ in 0..30 {
            admin.command(&["SCRIPT", "FLUSH"]).unwrap();
            assert!(
                tokio::time::timeout(Duration::from_millis(100), held.lost())
                    .await
                    .is_err()
            );
        }
    });
}

#[test]
fn a_restart_loses_the_holds_and_nothing_else() {
    steady(async || {
        let server = RedisServer::start();
        let locks = connect(server.url()).await;
        let guard = lock_for(&locks, "k", Duration::from_secs(4)).await;
        server.restart();
        let begin = Instant::now();
        assert_eq!(guard.lost().await, LossReason::Removed);
        assert!(
            begin.elapsed() < Duration::from_secs(3),
            "{:?}",
            begin.elapsed()
        );
        assert_eq!(guard.release().await.unwrap(), Released::AlreadyLost);
        let next = locks
            .lock_within("k", Duration::from_secs(5))
            .await
            .unwrap()
            .expect("free");
        next.release().await.unwrap();
    });
}

#[test]
fn a_waiter_rides_out_a_restart() {
    steady(async || {
        let server = RedisServer::start();
        let locks = connect(server.url()).await;
        server.client().command(&["SET", "k", "theirs"]).unwrap();
        let restarting = async {
            tracks_a_key(&server).await;
            server.restart();
        };
        let (guard, ()) = tokio::join!(locks.lock_within("k", Duration::from_secs(10)), restarting);
        assert!(guard.unwrap().is_some());
    });
}

#[test]
fn killed_connections_are_replaced_and_holds_survive() {
    steady(async || {
        let server = RedisServer::start();
        let locks = connect(server.url()).await;
        let guard = lock_for(&locks, "k", Duration::from_millis(900)).await;
        let mut admin = server.client();
        for _ in 0..10 {
            admin
                .command(&["CLIENT", "KILL", "TYPE", "normal", "SKIPME", "yes"])
                .unwrap();
            let lost = tokio::time::timeout(Duration::from_millis(200), guard.lost()).await;
            assert!(lost.is_err(), "{lost:?}");
            let other = locks
                .lock_within("other", Duration::from_secs(2))
                .await
                .unwrap();
            drop(other.expect("free"));
        }
        assert_eq!(guard.release().await.unwrap(), Released::Released);
    });
}

#[test]
fn a_server_that_stands_still_is_broken_and_not_busy() {
    steady(async || {
        let server = RedisServer::start();
        let locks = connect(server.url()).await;
        let held = locks.lock("held").await.unwrap();
        server.freeze();

        let begin = Instant::now();
        let error = locks.try_lock("free").await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Unavailable, "{error}");
        assert!(
            begin.elapsed() < Duration::from_millis(1500),
            "{:?}",
            begin.elapsed()
        );

        let (limit, begin) = (Duration::from_millis(200), Instant::now());
        let error = locks.lock_within("free", limit).await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Unavailable, "{error}");
        assert!(
            begin.elapsed() < limit + Duration::from_millis(250),
            "{:?}",
            begin.elapsed()
        );

        let begin = Instant::now();
        let error = held.release().await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Unavailable, "{error}");
        assert!(
            begin.elapsed() < Duration::from_millis(1500),
            "{:?}",
            begin.elapsed()
        );

        server.thaw();
        for key in ["held", "free"] {
            let limit = Duration::from_secs(5);
            assert!(
                locks.lock_within(key, limit).await.unwrap().is_some(),
                "{key} is stuck"
            );
        }
    });
}

#[test]
fn waiters_in_line_are_told_that_the_server_is_broken() {
    steady(async || {
        let server = RedisServer::start();
        let locks = connect(server.url()).await;
        let _held = locks.lock("k").await.unwrap();
        let limit = Duration::from_millis(700);
        let (first, second, third, ()) = tokio::join!(
            locks.lock_within("k", limit),
            locks.lock_within("k", limit),
            locks.lock_within("k", limit),
            async { server.freeze() }
        );
        for outcome in [first, second, third] {
            let error = outcome.expect_err("frozen is not busy");
            assert_eq!(error.kind(), ErrorKind::Unavailable, "{error}");
        }
        server.thaw();
    });
}

#[test]
fn holds_survive_a_server_that_is_out_of_memory() {
    steady(async || {
        let server = RedisServer::start();
        let locks = connect(server.url()).await;
        let ttl = Duration::from_millis(900);
        let exclusive = lock_for(&locks, "exclusive", ttl).await;
        let shared = LockRequest::shared("shared").unwrap().with_ttl(ttl);
        let shared = locks.acquire(shared).await.unwrap().expect("free");
        let mut admin = server.client();
        admin
            .command(&["CONFIG", "SET", "maxmemory", "100kb"])
            .unwrap();
        let error = locks.try_lock("another").await.unwrap_err();
        assert!(error.to_string().contains("out of memory"), "{error}");
        tokio::select! {
            reason = exclusive.lost() => panic!("exclusive: {reason}"),
            reason = shared.lost() => panic!("shared: {reason}"),
            () = tokio::time::sleep(ttl * 3) => {}
        }
        assert_eq!(exclusive.release().await.unwrap(), Released::Released);
        assert_eq!(shared.release().await.unwrap(), Released::Released);
    });
}

#[test]
fn a_hold_that_cannot_be_renewed_takes_no_other_along() {
    steady(async || {
        let server = RedisServer::start();
        let mut admin = server.client();
        let user = ["ACL", "SETUSER", "u", "on", ">p", "~*", "+@all"];
        admin.command(&user).unwrap();
        let locks = connect(format!("redis://u:p@127.0.0.1:{}", server.port())).await;
        let ttl = Duration::from_millis(900);
        let good = lock_for(&locks, "good", ttl).await;
        let bad = lock_for(&locks, "bad", ttl).await;
        admin
            .command(&["ACL", "SETUSER", "u", "resetkeys", "~good", "~*grants"])
            .unwrap();
        assert_eq!(bad.lost().await, LossReason::Expired);
        assert!(good.is_held());
        let lost = tokio::time::timeout(ttl * 2, good.lost()).await;
        assert!(lost.is_err(), "{lost:?}");
    });
}

#[test]
fn a_connection_that_was_closed_while_it_was_idle_is_no_error() {
    steady(async || {
        let server = RedisServer::start();
        let locks = connect(server.url()).await;
        for round in 0..10 {
            server
                .client()
                .command(&["CLIENT", "KILL", "TYPE", "normal", "SKIPME", "yes"])
                .unwrap();
            let guard = locks.try_lock("k").await.unwrap().expect("free");
            server
                .client()
                .command(&["CLIENT", "KILL", "TYPE", "normal", "SKIPME", "yes"])
                .unwrap();
            assert_eq!(
                guard.release().await.unwrap(),
                Released::Released,
                "round {round}"
            );
        }
    });
}

fn poll_once<F: Future>(future: Pin<&mut F>) -> Poll<F::Output> {
    future.poll(&mut Context::from_waker(Waker::noop()))
}

#[test]
fn an_acquisition_that_rests_keeps_nobody_from_reconnecting() {
    steady(async || {
        let server = RedisServer::start();
        let locks = connect(server.url()).await;
        server.restart();
        let mut resting = Box::pin(locks.lock("resting"));
        // If this thread was delayed, the first poll already returns the grant. Then start again.
        while let Poll::Ready(granted) = poll_once(resting.as_mut()) {
            granted.unwrap().release().await.unwrap();
            server.restart();
            resting = Box::pin(locks.lock("resting"));
        }
        for _ in 0..20 {
            let limit = Duration::from_secs(5);
            let guard = locks
                .lock_within("other", limit)
                .await
                .unwrap()
                .expect("free");
            guard.release().await.unwrap();
        }
        assert!(resting.await.unwrap().is_held());
    });
}
