//! Dropped clients, guards and futures leave nothing on the server.

use std::time::Duration;

use lock_core::{DistributedLockExt, LossReason};
use lock_testkit::servers::RedisServer;
use lock_testkit::{eventually, steady};
use tokio::task::JoinSet;

use crate::{connect, lock_for};

/// Waits until the server has no key but the counter of grants.
pub(crate) async fn assert_empty_within(server: &RedisServer, limit: Duration) {
    eventually(limit, "nothing but the counter is left", || async {
        let size = server.client().command(&["DBSIZE"]);
        size.expect("the server runs").integer() <= Some(1)
    })
    .await;
}

#[test]
fn a_client_dropped_together_with_its_guard_still_releases() {
    steady(async || {
        let server = RedisServer::start();
        for _ in 0..200 {
            let locks = connect(server.url()).await;
            let guard = locks.lock("k").await.unwrap();
            drop((locks, guard));
            assert_empty_within(&server, Duration::from_secs(5)).await;
        }
    });
}

#[test]
fn acquisitions_cancelled_while_the_server_stands_still_leave_nothing() {
    steady(async || {
        let server = RedisServer::start();
        let locks = connect(server.url()).await;
        // Load the scripts: a server without them answers `NOSCRIPT` and grants nothing.
        locks.lock("k").await.unwrap().release().await.unwrap();
        for round in 0..5 {
            server.freeze();
            let mut tasks = JoinSet::new();
            // More requests than the server reads from one connection before it serves the next
            // connection.
            for number in 0..400 {
                let (locks, key) = (locks.clone(), format!("k{round}/{number}"));
                tasks.spawn(async move {
                    let limit = Duration::from_millis(50);
                    tokio::time::timeout(limit, locks.lock(&key)).await.is_err()
                });
            }
            while let Some(cancelled) = tasks.join_next().await {
                assert!(cancelled.unwrap(), "granted by a server that stands still");
            }
            server.thaw();
            assert_empty_within(&server, Duration::from_secs(5)).await;
        }
    });
}

#[test]
fn a_guard_dropped_after_its_runtime_is_gone_is_released() {
    steady(async || {
        let server = RedisServer::start();
        let url = server.url();
        let acquiring = std::thread::spawn(|| {
            let runtime = tokio::runtime::Runtime::new().unwrap();
            let (guard, other) = runtime.block_on(async {
                let locks = connect(url).await;
                (
                    lock_for(&locks, "k", Duration::from_secs(30)).await,
                    lock_for(&locks, "renewed", Duration::from_millis(600)).await,
                )
            });
            drop(runtime);
            drop(guard);
            other
        });
        let other = acquiring.join().unwrap();
        eventually(
            Duration::from_secs(5),
            "the dropped guard's key is free",
            || async { server.client().command(&["EXISTS", "k"]).unwrap().integer() == Some(0) },
        )
        .await;
        tokio::time::timeout(Duration::from_millis(1500), other.lost())
            .await
            .expect_err("a hold does not need the runtime that acquired it");
        assert!(other.is_held());
        server.client().command(&["DEL", "renewed"]).unwrap();
        assert_eq!(other.lost().await, LossReason::Removed);
    });
}

#[test]
fn a_client_outlives_the_runtime_it_was_connected_on() {
    steady(async || {
        let server = RedisServer::start();
        let url = server.url();
        let locks = std::thread::spawn(|| {
            let runtime = tokio::runtime::Builder::new_current_thread()
                .enable_all()
                .build()
                .unwrap();
            runtime.block_on(connect(url))
        });
        let locks = locks.join().unwrap();
        let limit = Duration::from_secs(5);
        let guard = locks.lock_within("k", limit).await.unwrap().expect("free");
        guard.release().await.unwrap();
        assert!(locks.lock("k").await.unwrap().is_held());
    });
}
