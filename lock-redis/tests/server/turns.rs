//! Claims of several modes and clients that compete for one key.

use std::io::{BufRead, BufReader, Write};
use std::net::TcpStream;
use std::time::Duration;

use lock_core::backend::Released;
use lock_core::{DistributedLock, DistributedLockExt, LockGuard, LockRequest, Wait};
use lock_redis::RedisLock;
use lock_testkit::servers::RedisServer;
use lock_testkit::{eventually, steady};
use tokio::time::Instant;

use crate::connect;

const PROMPT: Duration = Duration::from_secs(20);

/// Time before the turn of a waiter is due.
const PATIENCE: Duration = Duration::from_millis(5);

/// The key of the queue of waiters for `k`.
const WAITS: &[u8] = b"k\xffwaits";

async fn take(locks: &RedisLock, request: &LockRequest) -> LockGuard {
    let request = request.clone().with_wait(Wait::within(PROMPT));
    let guard = locks.acquire(request).await.expect("the server runs");
    guard.expect("nobody starves")
}

/// The server removes a waiter that does not use its turn.
#[test]
fn a_waiter_that_has_gone_holds_nobody_up() {
    steady(async || {
        let server = RedisServer::start();
        let (ours, theirs) = (connect(server.url()).await, connect(server.url()).await);
        let held = ours.lock("k").await.unwrap();
        let waited = theirs.lock_within("k", Duration::from_millis(100)).await;
        assert!(waited.unwrap().is_none(), "two holders");
        held.release().await.unwrap();
        let begin = Instant::now();
        ours.lock("k").await.unwrap().release().await.unwrap();
        let took = begin.elapsed();
        assert!(took < Duration::from_millis(300), "{took:?}");
    });
}

/// The server learns only from the next request of the client that its waiter gave up.
#[test]
fn a_waiter_that_gave_up_refuses_no_try_of_its_own_client() {
    steady(async || {
        let server = RedisServer::start();
        let locks = connect(server.url()).await;
        let requests = [
            LockRequest::exclusive("k"),
            LockRequest::shared("k"),
            LockRequest::permit("k", 8),
        ]
        .map(Result::unwrap);
        for held in &requests {
            for given_up in requests.iter().filter(|other| other.mode != held.mode) {
                let guard = take(&locks, held).await;
                let waits = given_up.clone().with_wait(Wait::within(PATIENCE * 4));
                assert!(locks.acquire(waits).await.unwrap().is_none(), "two holders");
                guard.release().await.unwrap();
                let tried = locks.acquire(held.clone().without_waiting()).await.unwrap();
                let tried = tried.unwrap_or_else(|| panic!("refused by {given_up:?}"));
                tried.release().await.unwrap();
            }
        }
    });
}

#[test]
fn a_try_does_not_take_the_turn_of_its_clients_waiter() {
    steady(async || {
        let server = RedisServer::start();
        let (ours, theirs) = (connect(server.url()).await, connect(server.url()).await);
        let read = LockRequest::shared("k").unwrap();
        let held = take(&theirs, &read).await;
        let write = LockRequest::exclusive("k").unwrap();
        let mut waiting = Box::pin(ours.acquire(write.with_wait(Wait::within(PROMPT))));
        let tried = || ours.acquire(read.clone().without_waiting());
        let refused = async || tried().await.unwrap().is_none();
        tokio::select! {
            _ = &mut waiting => panic!("two holders"),
            () = eventually(PROMPT, "the reader waits for its turn", refused) => {}
        }
        drop(waiting);
        let joined = tried().await.unwrap();
        let joined = joined.expect("the writer has given up");
        for guard in [held, joined] {
            guard.release().await.unwrap();
        }
    });
}

/// Returns the end of the first waiter's turn for `k`, in ms of the server's clock; 0 without a
/// turn.
fn turn_ends(server: &RedisServer) -> u64 {
    let waits = server.client().command(&[b"GET".as_slice(), WAITS]);
    let text = waits.expect("the server runs").text().unwrap_or_default();
    let first = text.split(' ').next().unwrap_or_default();
    first.parse().unwrap_or_default()
}

/// Enters an exclusive waiter for `k` whose turn is due, and which never asks again.
fn a_writer_waits(server: &RedisServer) {
    let time = server.client().command(&["TIME"]).expect("the server runs");
    let now: u64 = time.texts()[0].parse().expect("a number");
    let line = format!("0 1 xsomebody@{}", now * 1000);
    let set = [b"SET".as_slice(), WAITS, line.as_bytes()];
    server.client().command(&set).expect("the server runs");
}

#[test]
fn no_reader_and_no_permit_joins_while_a_writer_waits() {
    steady(async || {
        let server = RedisServer::start();
        let (ours, theirs) = (connect(server.url()).await, connect(server.url()).await);
        for request in [LockRequest::shared("k"), LockRequest::permit("k", 8)].map(Result::unwrap) {
            let held = take(&ours, &request).await;
            let beside = || theirs.acquire(request.clone().without_waiting());
            let joined = beside().await.unwrap();
            assert!(joined.is_some(), "{:?} joins nobody", request.mode);
            joined.unwrap().release().await.unwrap();
            a_writer_waits(&server);
            assert!(beside().await.unwrap().is_none(), "{:?}", request.mode);
            // Wait until the server drops the writer, which has not asked again.
            let joined = take(&theirs, &request).await;
            for guard in [held, joined] {
                guard.release().await.unwrap();
            }
        }
    });
}

#[test]
fn a_key_that_is_given_back_is_kept_for_who_has_waited_long() {
    steady(async || {
        let server = RedisServer::start();
        let locks = connect(server.url()).await;
        let requests = [
            LockRequest::exclusive("k"),
            LockRequest::shared("k"),
            LockRequest::permit("k", 8),
        ];
        for request in requests.map(Result::unwrap) {
            let held = take(&locks, &request).await;
            a_writer_waits(&server);
            held.release().await.unwrap();
            assert!(turn_ends(&server) > 0, "{:?}", request.mode);
            let begin = Instant::now();
            take(&locks, &request).await.release().await.unwrap();
            let took = begin.elapsed();
            assert!(took < Duration::from_millis(300), "{took:?}");
        }
    });
}

/// Checks that each script in the output of `MONITOR` touches only the keys that were passed to it.
fn assert_keys_are_declared(monitored: &[String]) {
    let words = |line: &str| -> Vec<String> {
        let (_, quoted) = line.split_once("] ").unwrap_or_default();
        let quoted = quoted.replace("\\\"", "'");
        quoted
            .split('"')
            .skip(1)
            .step_by(2)
            .map(str::to_owned)
            .collect()
    };
    let (mut declared, mut scripts): (Vec<String>, usize) = (Vec::new(), 0);
    for line in monitored {
        let words = words(line);
        match words.first().map(String::as_str) {
            Some("EVAL" | "EVALSHA") => {
                let keys = words[2].parse().expect("a number of keys");
                declared = words[3..].iter().take(keys).cloned().collect();
                scripts += 1;
            }
            Some("TIME") | None => {}
            Some(command) if line.contains(" lua] ") => {
                let keys = match command {
                    "DEL" | "MGET" => &words[1..],
                    _ => &words[1..2],
                };
                for key in keys {
                    assert!(declared.contains(key), "{key} in {line}, of {declared:?}");
                }
            }
            Some(_) => {}
        }
    }
    assert!(scripts > 10, "{monitored:?}");
}

#[test]
fn scripts_touch_no_key_that_they_do_not_name() {
    steady(async || {
        let server = RedisServer::start();
        let mut monitor = TcpStream::connect(("127.0.0.1", server.port())).unwrap();
        monitor.set_read_timeout(Some(PROMPT)).unwrap();
        monitor.write_all(b"MONITOR\r\n").unwrap();
        let mut lines = BufReader::new(monitor).lines().map(Result::unwrap);
        assert_eq!(lines.next().as_deref(), Some("+OK"));
        let (ours, theirs) = (connect(server.url()).await, connect(server.url()).await);
        let requests = [
            LockRequest::exclusive("k"),
            LockRequest::shared("k"),
            LockRequest::permit("k", 2),
        ];
        for request in requests.map(Result::unwrap) {
            let held = take(&ours, &request).await;
            let exclusive = LockRequest::exclusive("k").unwrap();
            let waiting = take(&theirs, &exclusive);
            let releasing = async {
                // Long enough for the first renewal.
                tokio::time::sleep(Duration::from_millis(400)).await;
                held.release().await.unwrap();
            };
            let (next, ()) = tokio::join!(waiting, releasing);
            let again = async {
                tokio::time::sleep(Duration::from_millis(30)).await;
                next.release().await.unwrap();
            };
            let (last, ()) = tokio::join!(take(&ours, &request), again);
            last.release().await.unwrap();
        }
        let batched = (0..20).map(|number| {
            let locks = ours.clone();
            async move {
                let guard = locks.try_lock(&format!("k{number}")).await.unwrap();
                guard.unwrap().release().await.unwrap();
            }
        });
        futures_util::future::join_all(batched).await;
        server.client().command(&["ECHO", "the end"]).unwrap();
        let monitored: Vec<String> = lines
            .take_while(|line| !line.contains("\"ECHO\""))
            .collect();
        assert_keys_are_declared(&monitored);
    });
}

/// The client sends the release over two connections, and one of the requests deletes nothing.
#[test]
fn a_release_on_a_server_that_stood_still_is_told_for_what_it_is() {
    steady(async || {
        let server = RedisServer::start();
        let locks = connect(server.url()).await;
        for _ in 0..12 {
            let guard = locks.lock("k").await.unwrap();
            server.freeze();
            let thawing = async {
                tokio::time::sleep(Duration::from_millis(600)).await;
                server.thaw();
            };
            let (released, ()) = tokio::join!(guard.release(), thawing);
            assert_eq!(released.unwrap(), Released::Released);
        }
    });
}
