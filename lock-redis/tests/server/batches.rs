//! Batches of calls: each call has the result that it would have alone.

use std::collections::BTreeSet;
use std::future::{Future, poll_fn};
use std::pin::Pin;
use std::task::Poll;
use std::time::Duration;

use lock_core::backend::Released;
use lock_core::{
    DistributedLock, DistributedLockExt, ErrorKind, FencingToken, LockGuard, LockKey, LockRequest,
    Mode, Namespace,
};
use lock_redis::{RedisConfig, RedisLock};
use lock_testkit::servers::RedisServer;
use lock_testkit::{assert_excluded, steady};

use crate::cancellation::assert_empty_within;
use crate::connect;

pub(crate) fn how_often(server: &RedisServer, command: &str) -> u64 {
    let info = server.client().command(&["INFO", "commandstats"]);
    let info = info.expect("the server runs").text().unwrap_or_default();
    let begin = format!("cmdstat_{command}:calls=");
    let calls = info.lines().find_map(|line| line.strip_prefix(&begin));
    calls.map_or(0, |calls| {
        let digits = calls.split(',').next().unwrap_or_default();
        digits.parse().expect("a number")
    })
}

/// Takes all `keys` at the same time.
async fn take_all(locks: &RedisLock, keys: impl Iterator<Item = String>) -> Vec<LockGuard> {
    let asking = keys.map(|key| async move { locks.try_lock(&key).await });
    let answers = futures_util::future::join_all(asking).await;
    let guard = |answer: lock_core::Result<Option<LockGuard>>| {
        answer.expect("the server runs").expect("free")
    };
    answers.into_iter().map(guard).collect()
}

async fn release_all(guards: Vec<LockGuard>) {
    let releasing = guards.into_iter().map(LockGuard::release);
    for released in futures_util::future::join_all(releasing).await {
        assert_eq!(released.expect("the server runs"), Released::Released);
    }
}

/// With one thread, no other task runs while the test polls the takes, so they gather.
#[tokio::test]
async fn what_is_asked_for_at_once_travels_together() {
    let server = RedisServer::start();
    let locks = connect(server.url()).await;
    for round in 0..3 {
        let before = how_often(&server, "evalsha") + how_often(&server, "eval");
        let guards = take_all(&locks, (0..200).map(|key| format!("k{key}"))).await;
        let tokens: BTreeSet<FencingToken> = guards.iter().map(LockGuard::token).collect();
        assert_eq!(tokens.len(), 200, "a token was given twice");
        release_all(guards).await;
        let asked = how_often(&server, "evalsha") + how_often(&server, "eval") - before;
        assert!(asked <= 20, "{asked} requests for 400 in round {round}");
        assert_empty_within(&server, Duration::ZERO).await;
    }
}

#[test]
fn each_is_answered_as_if_it_had_been_alone() {
    steady(async || {
        let server = RedisServer::start();
        let (locks, others) = (connect(server.url()).await, connect(server.url()).await);
        let mut client = server.client();
        client.command(&["RPUSH", "list", "no lock"]).unwrap();
        let _shared = others.try_lock_shared("shared").await.unwrap().unwrap();
        let _held = others.try_lock("held").await.unwrap().unwrap();
        let ours = locks.try_lock("ours").await.unwrap().unwrap();
        let stolen = locks.try_lock("stolen").await.unwrap().unwrap();
        client
            .command(&["SET", "stolen", "of somebody else"])
            .unwrap();
        let (before, last) = (ours.token(), stolen.token());

        let (first, list, shared, held, released, robbed, again, second, free) = tokio::join!(
            locks.try_lock("first"),
            locks.try_lock("list"),
            locks.try_lock("shared"),
            locks.try_lock("held"),
            ours.release(),
            stolen.release(),
            locks.try_lock("ours"),
            locks.try_lock("first"),
            locks.try_lock("free"),
        );
        let refused = list.unwrap_err();
        assert_eq!(refused.kind(), ErrorKind::Backend, "{refused}");
        lock_testkit::assert_excluded!(shared.unwrap().is_none(), "readers hold it");
        lock_testkit::assert_excluded!(held.unwrap().is_none(), "another client holds it");
        assert_eq!(released.unwrap(), Released::Released);
        assert_eq!(robbed.unwrap(), Released::AlreadyLost);
        let (first, second) = (first.unwrap(), second.unwrap());
        assert!(first.is_some() && second.is_none(), "{first:?}, {second:?}");
        let again = again.unwrap().expect("it was released before");
        let free = free.unwrap().expect("free");
        assert!(again.token() > before && free.token() > last);
        assert_eq!(
            client
                .command(&["GET", "stolen"])
                .unwrap()
                .text()
                .as_deref(),
            Some("of somebody else")
        );
        release_all(vec![again, free, first.unwrap()]).await;
        let left = client.command(&["KEYS", "*"]).unwrap().texts();
        assert!(
            !left
                .iter()
                .any(|key| ["ours", "free", "first"].contains(&&**key)),
            "{left:?}"
        );
    });
}

/// The test blocks its runtime until the keeper thread has submitted the clean-ups.
#[tokio::test]
async fn what_is_given_up_while_it_gathers_leaves_nothing() {
    let server = RedisServer::start();
    let locks = connect(server.url()).await;
    release_all(take_all(&locks, (0..10).map(|key| format!("k{key}"))).await).await;
    let mut first = Box::pin(locks.try_lock("first"));
    assert!(
        !is_done(first.as_mut()).await,
        "answered before it was sent"
    );
    for key in 0..50 {
        let key = format!("k{key}");
        let mut given_up = Box::pin(locks.try_lock(&key));
        assert!(
            !is_done(given_up.as_mut()).await,
            "answered before it was sent"
        );
    }
    std::thread::park_timeout(Duration::from_millis(100));
    release_all(first.await.unwrap().into_iter().collect()).await;
    assert_empty_within(&server, Duration::from_secs(5)).await;
}

/// Shared takes, which are not batched, fill the sockets. Exclusive takes and their clean-ups then
/// wait for the driver at the same time.
#[test]
fn what_is_given_up_while_the_connection_is_full_leaves_nothing() {
    steady(async || {
        let server = RedisServer::start();
        let long = Namespace::new(&"n".repeat(255)).unwrap();
        let config = RedisConfig::new(server.url()).with_namespace(long);
        let locks = RedisLock::connect(config).await.unwrap();
        let long = |number: u32| format!("{number:0>255}");
        release_all(take_all(&locks, (0..10).map(long)).await).await;
        server.freeze();
        let keys: Vec<String> = (0..4000).map(long).collect();
        let readers = keys.iter().map(|key| locks.try_lock_shared(key));
        let mut readers = Box::pin(futures_util::future::join_all(readers));
        assert!(!is_done(readers.as_mut()).await, "the server is frozen");
        for keys in keys.chunks(20) {
            let takes = keys.iter().map(|key| locks.try_lock(key));
            let mut takes = Box::pin(futures_util::future::join_all(takes));
            assert!(!is_done(takes.as_mut()).await, "the server is frozen");
            // Let the takes go first, so that their clean-ups are in a later batch.
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
        drop(readers);
        server.thaw();
        assert_empty_within(&server, Duration::from_secs(10)).await;
    });
}

/// The server is frozen for longer than a client waits for the answer to a clean-up.
#[test]
fn clean_ups_that_nobody_waits_for_any_more_are_sent_behind_their_takes() {
    steady(async || {
        let server = RedisServer::start();
        let long = Namespace::new(&"n".repeat(255)).unwrap();
        let config = RedisConfig::new(server.url()).with_namespace(long);
        let locks = RedisLock::connect(config).await.unwrap();
        let keys: Vec<String> = (0..4000).map(|number| format!("{number:0>255}")).collect();
        server.freeze();
        let takes = keys.iter().map(|key| locks.try_lock_shared(key));
        let mut takes = Box::pin(futures_util::future::join_all(takes));
        assert!(!is_done(takes.as_mut()).await, "the server is frozen");
        // The takes fill the sockets, so the clean-ups cannot be sent.
        tokio::time::sleep(Duration::from_millis(100)).await;
        drop(takes);
        tokio::time::sleep(Duration::from_millis(1500)).await;
        server.thaw();
        assert_empty_within(&server, Duration::from_secs(10)).await;
    });
}

/// Polls `future` once, and returns true if it is ready.
async fn is_done(mut future: Pin<&mut impl Future>) -> bool {
    poll_fn(|context| Poll::Ready(future.as_mut().poll(context).is_ready())).await
}

#[tokio::test]
async fn a_server_that_forgets_its_scripts_is_taught_again() {
    let server = RedisServer::start();
    let locks = connect(server.url()).await;
    for _ in 0..5 {
        release_all(take_all(&locks, (0..50).map(|key| format!("k{key}"))).await).await;
        server.client().command(&["SCRIPT", "FLUSH"]).unwrap();
    }
    let before = how_often(&server, "evalsha");
    release_all(take_all(&locks, (0..50).map(|key| format!("k{key}"))).await).await;
    release_all(take_all(&locks, (0..50).map(|key| format!("k{key}"))).await).await;
    let asked = how_often(&server, "evalsha") - before;
    assert!(
        asked <= 110,
        "{asked}: it has not learned that they can travel together"
    );
}

#[test]
fn a_server_that_is_full_refuses_takes_and_accepts_releases() {
    steady(async || {
        let server = RedisServer::start();
        let locks = connect(server.url()).await;
        let [one, two] = [locks.try_lock("one").await, locks.try_lock("two").await];
        let [one, two] = [one.unwrap().unwrap(), two.unwrap().unwrap()];
        let full = server
            .client()
            .command(&["CONFIG", "SET", "maxmemory", "100kb"]);
        full.unwrap();
        let (first, second, third, fourth) = tokio::join!(
            locks.try_lock("three"),
            one.release(),
            locks.try_lock("four"),
            two.release(),
        );
        for refused in [first, third] {
            let error = refused.unwrap_err();
            assert!(error.to_string().contains("out of memory"), "{error}");
        }
        assert_eq!(
            (second.unwrap(), fourth.unwrap()),
            (Released::Released, Released::Released)
        );
    });
}

#[tokio::test]
async fn a_set_of_free_keys_takes_one_request() {
    let server = RedisServer::start();
    let (locks, other) = (connect(server.url()).await, connect(server.url()).await);
    let names: Vec<String> = (0..100).map(|key| format!("k{key}")).collect();
    let asked = || how_often(&server, "evalsha") + how_often(&server, "eval");
    let before = asked();
    let set = locks.lock_all(&names).await.expect("the server runs");
    assert_eq!(asked() - before, 1);
    let tokens: BTreeSet<FencingToken> = set.tokens().map(|(_, token)| token).collect();
    assert_eq!(tokens.len(), 100, "a token was given twice");
    for name in &names {
        assert!(other.try_lock(name).await.expect("it runs").is_none());
    }
    assert_eq!(set.release().await.expect("it runs"), Released::Released);
    assert_empty_within(&server, Duration::ZERO).await;

    // A key that is held exclusively is seen before the first is taken, and others after that.
    for mode in [
        Mode::Exclusive,
        Mode::Shared,
        Mode::permit(2).expect("not zero"),
    ] {
        let request = LockRequest::new(LockKey::new("k99").expect("a key"), mode);
        let held = other.acquire(request).await.expect("it runs");
        let refused = locks.try_lock_all(&names).await.expect("it runs");
        assert_excluded!(refused.is_none(), "beside {mode:?}");
        held.expect("free").release().await.expect("it runs");
        assert_empty_within(&server, Duration::ZERO).await;
    }
}
