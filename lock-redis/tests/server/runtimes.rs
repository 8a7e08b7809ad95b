//! Clients that are used from several runtimes.

use std::time::Duration;

use lock_core::{DistributedLockExt, ErrorKind, KeeperMode};
use lock_redis::{RedisConfig, RedisLock};
use lock_testkit::servers::RedisServer;
use tokio::runtime::{Builder, Runtime};
use tokio::time::{Instant, timeout};

use crate::{connect, lock_for};

fn runtime() -> Runtime {
    Builder::new_current_thread()
        .enable_all()
        .build()
        .expect("a runtime")
}

/// Takes and releases a lock, in less time than it takes to give up a silent connection.
async fn works(locks: &RedisLock, key: &str) {
    let using = async {
        let guard = lock_for(locks, key, Duration::from_secs(30)).await;
        guard.release().await.expect("the server runs");
    };
    timeout(Duration::from_secs(1), using)
        .await
        .expect("no runtime waits for another one");
}

#[test]
fn a_runtime_that_nobody_drives_holds_nobody_up() {
    let server = RedisServer::start();
    let first = runtime();
    let locks = first.block_on(connect(server.url()));
    // From now on no thread drives the first runtime.
    runtime().block_on(works(&locks, "a"));
    first.block_on(works(&locks, "b"));
}

#[test]
fn a_guard_of_a_runtime_that_nobody_drives_is_released_elsewhere() {
    let server = RedisServer::start();
    let (first, second) = (runtime(), runtime());
    let locks = first.block_on(connect(server.url()));
    let guard = first.block_on(lock_for(&locks, "k", Duration::from_secs(30)));
    drop(guard);
    second.block_on(async {
        let next = locks.lock_within("k", Duration::from_secs(5)).await;
        assert!(next.expect("the server runs").is_some(), "still held");
    });
}

/// A program without async code of its own uses guards like this.
#[test]
fn a_guard_that_is_dropped_outside_of_its_runtime_frees_its_key_at_once() {
    const ROUNDS: usize = 10;
    let server = RedisServer::start();
    let (runtime, mut admin) = (runtime(), server.client());
    let locks = runtime.block_on(connect(server.url()));
    let mut slow = 0;
    for _ in 0..ROUNDS {
        let guard = runtime.block_on(lock_for(&locks, "k", Duration::from_secs(30)));
        let begin = Instant::now();
        drop(guard);
        while admin.command(&["EXISTS", "k"]).unwrap().integer() == Some(1) {
            assert!(begin.elapsed() < Duration::from_secs(5), "still held");
        }
        slow += usize::from(begin.elapsed() > Duration::from_millis(100));
    }
    assert!(slow < ROUNDS / 2, "{slow} of {ROUNDS} came late");
}

#[test]
fn connections_end_with_their_runtimes() {
    let server = RedisServer::start();
    let first = runtime();
    let locks = first.block_on(connect(server.url()));
    for key in ["a", "b", "c", "d", "e"] {
        runtime().block_on(works(&locks, key));
    }
    let connections = || {
        let clients = server.client().command(&["CLIENT", "LIST"]).unwrap();
        clients.text().unwrap_or_default().lines().count()
    };
    // Two connections of the client, and the connection that asks. The server may still count that
    // of the last runtime.
    first.block_on(async {
        timeout(Duration::from_secs(5), async {
            while connections() > 3 {
                tokio::task::yield_now().await;
            }
        })
        .await
        .expect("the connections of dropped runtimes are closed");
        works(&locks, "f").await;
    });
}

#[test]
fn requests_end_in_time_although_a_runtime_that_kept_holds_is_not_driven() {
    let server = RedisServer::start();
    let (first, second) = (runtime(), runtime());
    let config = RedisConfig::new(server.url()).with_keeper(KeeperMode::Caller);
    let locks = first.block_on(RedisLock::connect(config)).unwrap();
    let kept = first.block_on(lock_for(&locks, "kept", Duration::from_secs(30)));
    second.block_on(works(&locks, "k"));
    server.freeze();
    let asking = async { timeout(Duration::from_secs(10), locks.try_lock("k")).await };
    let answer = second.block_on(asking);
    server.thaw();
    let error = answer.expect("within its limit").unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Unavailable, "{error}");
    first.block_on(kept.release()).unwrap();
}
