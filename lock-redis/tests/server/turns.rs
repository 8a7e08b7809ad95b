//! Claims of different modes and processes that want the same key all the time.

use std::io::{BufRead, BufReader, Write};
use std::net::TcpStream;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use lock_core::{DistributedLock, DistributedLockExt, LockGuard, LockRequest, Wait};
use lock_redis::RedisLock;
use lock_testkit::servers::RedisServer;
use lock_testkit::{eventually, steady};
use tokio::task::JoinSet;
use tokio::time::Instant;

use crate::connect;

const PROMPT: Duration = Duration::from_secs(20);

async fn take(locks: &RedisLock, request: &LockRequest) -> LockGuard {
    let request = request.clone().with_wait(Wait::within(PROMPT));
    let guard = locks.acquire(request).await.expect("the server runs");
    guard.expect("nobody starves")
}

/// Tasks of one client that take the same key again and again, until they are dropped.
struct Crowd {
    turns: Arc<AtomicU64>,
    _tasks: JoinSet<()>,
}

impl Crowd {
    async fn of(server: &RedisServer, request: &LockRequest, size: usize) -> Self {
        let locks = connect(server.url()).await;
        let (turns, mut tasks) = (Arc::<AtomicU64>::default(), JoinSet::new());
        for _ in 0..size {
            let (locks, request, turns) = (locks.clone(), request.clone(), Arc::clone(&turns));
            tasks.spawn(async move {
                loop {
                    let guard = take(&locks, &request).await;
                    // Long enough for the others of this crowd to come before it goes.
                    tokio::time::sleep(Duration::from_millis(1)).await;
                    guard.release().await.expect("the server runs");
                    turns.fetch_add(1, Ordering::Relaxed);
                }
            });
        }
        Self {
            turns,
            _tasks: tasks,
        }
    }

    /// Waits until it has had so many turns more.
    async fn has_turns(&self, more: u64) {
        let begun = self.turns.load(Ordering::Relaxed);
        eventually(PROMPT, "turns of the crowd", || async {
            self.turns.load(Ordering::Relaxed) >= begun + more
        })
        .await;
    }
}

/// Another client gets its turns soon, while a crowd wants the key all the time, and takes none from the crowd.
async fn gets_its_turns(crowd: LockRequest, other: LockRequest) {
    const TURNS: u32 = 10;
    let server = RedisServer::start();
    let crowd = Crowd::of(&server, &crowd, 4).await;
    crowd.has_turns(10).await;
    let locks = connect(server.url()).await;
    let begin = Instant::now();
    for _ in 0..TURNS {
        take(&locks, &other)
            .await
            .release()
            .await
            .expect("the server runs");
    }
    let took = begin.elapsed();
    assert!(
        took < Duration::from_secs(1) * TURNS / 4,
        "{took:?} for {TURNS} turns"
    );
    crowd.has_turns(10).await;
}

#[test]
fn a_writer_gets_in_between_readers_that_never_end() {
    steady(async || {
        let (readers, writer) = (LockRequest::shared("k"), LockRequest::exclusive("k"));
        gets_its_turns(readers.unwrap(), writer.unwrap()).await;
    });
}

#[test]
fn a_reader_gets_in_between_writers_that_never_end() {
    steady(async || {
        let (writers, reader) = (LockRequest::exclusive("k"), LockRequest::shared("k"));
        gets_its_turns(writers.unwrap(), reader.unwrap()).await;
    });
}

#[test]
fn permits_and_other_modes_take_turns() {
    steady(async || {
        let permits = || LockRequest::permit("k", 8).unwrap();
        gets_its_turns(permits(), LockRequest::exclusive("k").unwrap()).await;
        gets_its_turns(LockRequest::shared("k").unwrap(), permits()).await;
    });
}

#[test]
fn another_process_gets_in_between_writers_that_never_end() {
    steady(async || {
        let exclusive = || LockRequest::exclusive("k").unwrap();
        gets_its_turns(exclusive(), exclusive()).await;
    });
}

/// Its place is forgotten when its turn has come and gone.
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

/// The keys that each script was given, and those that it touched, as `MONITOR` tells them.
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
                // Its first renewal is in there.
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
        let monitored: Vec<String> = lines.take_while(|line| !line.contains("the end")).collect();
        assert_keys_are_declared(&monitored);
    });
}
