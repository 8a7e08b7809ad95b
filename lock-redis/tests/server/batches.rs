//! Calls of many tasks travel together, and each is answered as if it had been alone.

use std::collections::BTreeSet;
use std::future::{Future, poll_fn};
use std::pin::Pin;
use std::task::Poll;
use std::time::Duration;

use lock_core::{DistributedLockExt, ErrorKind, FencingToken, LockGuard, Released};
use lock_redis::RedisLock;
use lock_testkit::servers::{RedisServer, Reply, RespClient};
use lock_testkit::steady;

use crate::cancellation::assert_empty_within;
use crate::connect;

const BATCH: &str = concat!(
    include_str!("../../src/scripts/mint.lua"),
    include_str!("../../src/scripts/foreign.lua"),
    include_str!("../../src/scripts/take.lua"),
    include_str!("../../src/scripts/batch.lua"),
);

/// Asks the server for each of `asked`: a lock, an owner mark, and a ttl to take it or nothing to release it.
fn batch(server: &mut RespClient, asked: &[[&str; 3]]) -> Vec<Reply> {
    let count = asked.len().to_string();
    let mut command = vec!["EVAL", BATCH, &count];
    command.extend(asked.iter().map(|[lock, ..]| *lock));
    command.push("counter");
    command.extend(asked.iter().flat_map(|[_, mark, ttl]| [*mark, *ttl]));
    match server.command(&command).expect("the server runs") {
        Reply::Array(answers) => answers,
        answer => panic!("{answer:?}"),
    }
}

fn number(server: &mut RespClient, key: &str) -> i64 {
    let reply = server.command(&["GET", key]).expect("the server runs");
    reply.text().and_then(|text| text.parse().ok()).unwrap_or(0)
}

fn how_often(server: &RedisServer, command: &str) -> u64 {
    let info = server.client().command(&["INFO", "commandstats"]);
    let info = info.expect("the server runs").text().unwrap_or_default();
    let begin = format!("cmdstat_{command}:calls=");
    let calls = info.lines().find_map(|line| line.strip_prefix(&begin));
    calls.map_or(0, |calls| {
        let digits = calls.split(',').next().unwrap_or_default();
        digits.parse().expect("a number")
    })
}

/// Asks for each key at the same time.
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

#[test]
fn what_is_asked_for_at_once_travels_together() {
    steady(async || {
        let server = RedisServer::start();
        let locks = connect(server.url()).await;
        for round in 0..3 {
            let before = how_often(&server, "evalsha") + how_often(&server, "eval");
            let guards = take_all(&locks, (0..200).map(|key| format!("k{key}"))).await;
            let tokens: BTreeSet<FencingToken> = guards.iter().map(LockGuard::token).collect();
            assert_eq!(tokens.len(), 200, "a token was given twice");
            release_all(guards).await;
            let asked = how_often(&server, "evalsha") + how_often(&server, "eval") - before;
            assert!(asked <= 100, "{asked} requests for 400 in round {round}");
            assert_empty_within(&server, Duration::ZERO).await;
        }
    });
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
        assert!(shared.unwrap().is_none(), "readers hold it");
        assert!(held.unwrap().is_none(), "another client holds it");
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

/// The runtime has no turn before the clean-ups are on their way, which another thread sends.
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

/// Polls `future` once.
async fn is_done(mut future: Pin<&mut impl Future>) -> bool {
    poll_fn(|context| Poll::Ready(future.as_mut().poll(context).is_ready())).await
}

#[test]
fn a_server_that_forgets_its_scripts_is_taught_again() {
    steady(async || {
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
    });
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

#[test]
fn a_resend_in_a_batch_gets_the_same_token() {
    let server = RedisServer::start();
    let mut server = server.client();
    let first = batch(&mut server, &[["k", "a:", "5000"], ["l", "b:", "5000"]]);
    let grants = number(&mut server, "counter");
    let again = batch(
        &mut server,
        &[
            ["l", "b:", "60000"],
            ["m", "c:", "5000"],
            ["k", "a:", "60000"],
        ],
    );
    assert_eq!([&again[2], &again[0]], [&first[0], &first[1]]);
    assert_eq!(number(&mut server, "counter"), grants + 1);
    let left = server.command(&["PTTL", "k"]).unwrap().integer();
    assert!(
        left > Some(50_000),
        "the lease counts from the resend, which the client measures"
    );
}

#[test]
fn a_take_and_its_clean_up_leave_nothing() {
    let server = RedisServer::start();
    let mut server = server.client();
    let asked = [
        ["k", "a:", "5000"],
        ["k", "a:", ""],
        ["k", "b:", "5000"],
        ["k", "a:", ""],
    ];
    let answers = batch(&mut server, &asked);
    let integers: Vec<i64> = answers.iter().filter_map(Reply::integer).collect();
    assert!(
        matches!(integers[..], [first, 1, second, 0] if second > first),
        "{answers:?}"
    );
    let text = server.command(&["GET", "k"]).unwrap().text();
    assert_eq!(text, Some(format!("b:{}", integers[2])));
    let left = server.command(&["PTTL", "k"]).unwrap().integer();
    assert!(left > Some(0), "a lock without an end: {left:?}");
}

#[test]
fn refusals_use_up_no_grants() {
    let server = RedisServer::start();
    let mut server = server.client();
    server
        .command(&["SET", "held", "of somebody else", "PX", "5000"])
        .unwrap();
    server
        .command(&["ZADD", "shared", "1", "s0123456789abcdef0123456789abcdef"])
        .unwrap();
    let only_refused = [["held", "a:", "5000"], ["held", "b:", "5000"]];
    let answers = batch(&mut server, &only_refused);
    assert!(
        answers.iter().all(|answer| answer.integer() < Some(0)),
        "{answers:?}"
    );
    assert_eq!(number(&mut server, "counter"), 0, "a refusal writes");
    let first = batch(&mut server, &[["k", "a:", "5000"]]);
    let mixed = [
        ["shared", "b:", "5000"],
        ["l", "c:", "5000"],
        ["held", "d:", "5000"],
        ["m", "e:", "5000"],
    ];
    let answers = batch(&mut server, &mixed);
    let granted: Vec<i64> = answers
        .iter()
        .filter_map(Reply::integer)
        .filter(|answer| *answer > 0)
        .collect();
    let before = first[0].integer().unwrap();
    assert_eq!(granted, [before + 1, before + 2], "{answers:?}");
    assert_eq!(
        number(&mut server, "counter"),
        before + 2,
        "numbers were not given back"
    );
}
