//! Mistakes end quickly, with an error that says what to do.

use std::net::TcpListener;
use std::time::Duration;

use lock_testkit::servers::{RedisServer, RespClient};
use lock_testkit::{eventually, steady};
use tokio::time::Instant;

use crate::program::{assert_within, parsed, polylock};

#[test]
fn wrong_arguments_are_refused_with_the_usage() {
    for (arguments, complaint) in [
        ("", "Usage"),
        ("bench", "--lock"),
        ("bench --lock nonsense", "the lock url has no scheme"),
        ("bench --lock mongodb://h", "unknown scheme"),
        ("bench --lock redis://h?speed=9", "speed"),
        ("bench --lock memory:// --shape round", "possible values"),
        ("bench --lock memory:// --tasks 0", "--tasks"),
        ("bench --lock memory:// --seconds 0", "from 0.1 to 3600"),
        ("bench --lock memory:// --hand-off 5", "--hand-off"),
        ("bench --lock memory:// --processes 2", "--shape procs"),
        (
            "bench --lock memory:// --shape handover --processes 3",
            "between two",
        ),
    ] {
        let ended = polylock(arguments);
        assert_eq!(ended.code, Some(2), "{arguments}: {ended:?}");
        assert!(ended.stderr.contains(complaint), "{arguments}: {ended:?}");
        assert_eq!(ended.stdout, "", "{arguments}");
    }
}

#[test]
fn the_help_tells_the_defaults() {
    let ended = polylock("bench --help");
    assert_eq!(ended.code, Some(0));
    for text in ["--hand-off", "10ms", "handover", "10000", "Exits with 0"] {
        assert!(ended.stdout.contains(text), "{text}: {}", ended.stdout);
    }
}

#[test]
fn a_server_that_is_not_there_is_told_soon() {
    steady(async || {
        // A port that was free a moment ago.
        let listener = TcpListener::bind("127.0.0.1:0").expect("a free port");
        let port = listener.local_addr().expect("its address").port();
        drop(listener);
        for (url, path) in [
            ("redis://", ""),
            ("mysql://root@", "/database"),
            ("etcd://", ""),
            ("zookeeper://", ""),
        ] {
            let begin = Instant::now();
            let ended = polylock(&format!("bench --json --lock {url}127.0.0.1:{port}{path}"));
            let took = begin.elapsed();
            assert_eq!(ended.code, Some(1), "{url}: {ended:?}");
            assert!(ended.stderr.starts_with("polylock: "), "{url}: {ended:?}");
            assert_eq!(ended.stdout, "", "{url}");
            assert!(took < Duration::from_secs(20), "{url} took {took:?}");
        }
    });
}

/// Errors do not contain the passwords of URLs.
#[test]
fn passwords_are_not_repeated() {
    let ended = polylock("bench --lock redis://user:secret@127.0.0.1:1");
    assert_eq!(ended.code, Some(1), "{ended:?}");
    assert!(!ended.stderr.contains("secret"), "{ended:?}");
}

/// Deletes the key that two processes alternate at, but not the key of the raw commands.
const REMOVE: &str =
    "for _, key in ipairs(redis.call('KEYS', '*/hot')) do redis.call('DEL', key) end";

/// The test deletes the lock all the time, so that two processes hold it at once.
#[test]
fn a_store_that_loses_its_locks_is_found_out() {
    steady(async || {
        let server = RedisServer::start();
        let (url, port) = (server.url(), server.port());
        let bench = tokio::task::spawn_blocking(move || {
            polylock(&format!(
                "bench --json --shape handover --seconds 2 --lock {url}"
            ))
        });
        eventually(Duration::from_secs(30), "the end of the bench", || async {
            let mut client = RespClient::connect(port).expect("it runs");
            let removed = client.command(&["EVAL", REMOVE, "0"]);
            removed.expect("the server runs");
            bench.is_finished()
        })
        .await;
        let ended = bench.await.expect("it does not panic");
        assert_eq!(ended.code, Some(1), "{ended:?}");
        assert!(ended.stderr.contains("violations"), "{ended:?}");
        assert_within(&parsed(&ended), "violations", 1.0, 1e9);
    });
}
