//! Warnings about servers in the log.

use std::io;
use std::sync::{Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::Duration;

use lock_core::{DistributedLock, LockGuard, LockRequest};
use lock_redis::{RedisConfig, RedisLock};
use lock_testkit::servers::RedisServer;
use lock_testkit::{eventually, steady};

const TTL: Duration = Duration::from_secs(3);

static LOG: Mutex<Vec<u8>> = Mutex::new(Vec::new());

struct Log;

impl io::Write for Log {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        log().extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

fn log() -> MutexGuard<'static, Vec<u8>> {
    LOG.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Returns true if one line of the log has all `words`.
fn is_said(words: &[&str]) -> bool {
    let log = log();
    String::from_utf8_lossy(&log)
        .lines()
        .any(|line| words.iter().all(|word| line.contains(word)))
}

async fn connect(server: &RedisServer) -> RedisLock {
    static SUBSCRIBER: OnceLock<()> = OnceLock::new();

    SUBSCRIBER.get_or_init(|| tracing_subscriber::fmt().with_writer(|| Log).init());
    let locks = RedisLock::connect(RedisConfig::new(server.url())).await;
    locks.expect("the server runs")
}

async fn hold(locks: &RedisLock) -> LockGuard {
    let request = LockRequest::exclusive("k").expect("a key").with_ttl(TTL);
    locks
        .acquire(request)
        .await
        .expect("the server runs")
        .expect("free")
}

async fn set_while_held(set: impl FnOnce(&RedisServer), direction: &str) {
    let server = RedisServer::start_with_settable_clock::<&str>(&[]);
    let locks = connect(&server).await;
    let guard = hold(&locks).await;
    // The first renewal reads the server's clock before the change, the second one notices the
    // change.
    let mut admin = server.client();
    admin
        .command(&["PEXPIRE", "k", "1900"])
        .expect("the server runs");
    eventually(TTL, "a renewal", || {
        let left = admin
            .command(&["PTTL", "k"])
            .expect("the server runs")
            .integer();
        async move { left > Some(1900) }
    })
    .await;
    set(&server);
    let words = ["WARN", "clock was set", direction];
    eventually(TTL * 2, "a warning", || async { is_said(&words) }).await;
    drop(guard);
}

#[test]
fn a_server_clock_that_is_set_forward() {
    steady(async || {
        // Far enough for every hold to expire, when users most need to know why.
        let forward = |server: &RedisServer| server.set_clock_ahead(Duration::from_secs(31));
        set_while_held(forward, "forward").await;
    });
}

#[test]
fn a_server_clock_that_is_set_back() {
    steady(async || {
        let back = |server: &RedisServer| server.set_clock_back(Duration::from_secs(3600));
        set_while_held(back, "back").await;
    });
}

#[test]
fn a_server_that_evicts() {
    steady(async || {
        let kept = RedisServer::start();
        connect(&kept).await;
        assert!(!is_said(&["may evict", "allkeys-lfu"]));
        let evicts = RedisServer::start_with(&["--maxmemory-policy", "allkeys-lfu"]);
        connect(&evicts).await;
        assert!(is_said(&["WARN", "may evict held locks", "allkeys-lfu"]));
    });
}

#[test]
fn each_connect_is_told_in_one_line() {
    steady(async || {
        let server = RedisServer::start();
        connect(&server).await;
        let address = format!("127.0.0.1:{}", server.port());
        let version = "version=\"";
        assert!(is_said(&["INFO", "redis: connected to", &address, version]));
        assert!(!is_said(&[&address, "version=\"unknown\""]));
        let told = {
            let log = log();
            let log = String::from_utf8_lossy(&log).into_owned();
            log.lines().filter(|line| line.contains(&address)).count()
        };
        assert_eq!(told, 1);
    });
}
