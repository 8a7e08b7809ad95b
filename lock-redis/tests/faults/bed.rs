//! A server of its own with a proxy before it.

use std::time::Duration;

use lock_core::{DistributedLock, LockGuard, LockRequest, LossReason, Wait};
use lock_redis::{RedisConfig, RedisLock};
use lock_testkit::faults::{Connections, Proxy};
use lock_testkit::servers::{RedisServer, Reply, RespClient};
use lock_testkit::{connected, eventually};
use tokio::time::{Instant, timeout};

use crate::PROMPT;

/// The counter of grants, which stays by design.
const COUNTER: &[u8] = b"\xffgrants";

pub(crate) struct Bed {
    pub(crate) server: RedisServer,
    pub(crate) proxy: Proxy,
}

impl Bed {
    pub(crate) fn new() -> Self {
        let server = RedisServer::start();
        let proxy = Proxy::before(server.port());
        Self { server, proxy }
    }

    /// A client behind the proxy.
    pub(crate) async fn client(&self) -> RedisLock {
        connect(format!("redis://127.0.0.1:{}", self.proxy.port())).await
    }

    /// A client that no fault reaches.
    pub(crate) async fn direct(&self) -> RedisLock {
        connect(self.server.url()).await
    }

    /// Where takes and releases travel, and where waiters are told: its client's first words name the counter of
    /// grants.
    pub(crate) fn command(&self) -> Connections<'_> {
        self.proxy.opened_with(COUNTER)
    }

    /// Where renewals travel, and where the keeper is told: its client wants to hear of all that it reads.
    pub(crate) fn background(&self) -> Connections<'_> {
        self.proxy.opened_with("ON\r\n$6\r\nNOLOOP")
    }

    pub(crate) fn admin(&self) -> RespClient {
        self.server.client()
    }

    pub(crate) fn ask(&self, command: &[&str]) -> Reply {
        self.admin().command(command).expect("the server runs")
    }

    /// The number of the last grant.
    pub(crate) fn grants(&self) -> u64 {
        let reply = self.admin().command(&[b"GET".as_slice(), COUNTER]);
        let text = reply.expect("the server runs").text();
        text.expect("a client has connected")
            .parse()
            .expect("a number")
    }

    pub(crate) fn exists(&self, key: &str) -> bool {
        self.ask(&["EXISTS", key]).integer() == Some(1)
    }

    /// How long the server would keep the key.
    pub(crate) fn expires_in(&self, key: &str) -> Duration {
        let left = self.ask(&["PTTL", key]).integer().unwrap_or_default();
        Duration::from_millis(u64::try_from(left).unwrap_or_default())
    }

    /// How often the server has done `command`.
    pub(crate) fn calls(&self, command: &str) -> u64 {
        let info = self
            .ask(&["INFO", "commandstats"])
            .text()
            .unwrap_or_default();
        let prefix = format!("cmdstat_{command}:calls=");
        let count = info
            .lines()
            .find_map(|line| line.strip_prefix(&prefix)?.split(',').next());
        count.map_or(0, |count| count.parse().expect("a number"))
    }

    /// How many scripts the server was asked to run, by hash or by source.
    pub(crate) fn scripts(&self) -> u64 {
        self.calls("evalsha") + self.calls("eval")
    }

    /// A figure of the server's own statistics.
    pub(crate) fn figure(&self, section: &str, name: &str) -> u64 {
        let info = self.ask(&["INFO", section]).text().unwrap_or_default();
        let value = info
            .lines()
            .find_map(|line| line.strip_prefix(name)?.strip_prefix(':'));
        value.map_or(0, |value| value.trim().parse().expect("a number"))
    }

    /// Waits until nothing but the counter is left.
    pub(crate) async fn empties(&self) {
        eventually(PROMPT, "nothing but the counter is left", || async {
            self.ask(&["DBSIZE"]).integer() <= Some(1)
        })
        .await;
    }
}

pub(crate) async fn connect(url: String) -> RedisLock {
    let config = RedisConfig::new(url);
    connected(|| RedisLock::connect(config.clone())).await
}

/// The same request in all three modes, on keys of their own.
pub(crate) fn in_all_modes(key: &str, ttl: Duration) -> [LockRequest; 3] {
    [
        LockRequest::exclusive(key),
        LockRequest::shared(&format!("{key} shared")),
        LockRequest::permit(&format!("{key} permit"), 2),
    ]
    .map(|request| request.expect("a key").with_ttl(ttl))
}

pub(crate) fn exclusive(key: &str, ttl: Duration) -> LockRequest {
    LockRequest::exclusive(key).expect("a key").with_ttl(ttl)
}

/// Takes what is free, and waits while the connection is not what it should be.
pub(crate) async fn take(locks: &RedisLock, request: &LockRequest) -> LockGuard {
    let request = request.clone().with_wait(Wait::within(PROMPT));
    let answer = locks
        .acquire(request)
        .await
        .expect("the server can be reached in time");
    answer.expect("free")
}

/// Until when a hold is valid unless it is renewed, which is what moves it.
pub(crate) fn valid_until(guard: &LockGuard) -> Instant {
    Instant::now() + guard.remaining()
}

/// Waits until a hold is valid for clearly longer than `until`.
pub(crate) async fn is_renewed_after(guard: &LockGuard, until: Instant) {
    eventually(PROMPT, "a renewal is confirmed", || async {
        assert!(guard.is_held(), "lost instead of renewed");
        valid_until(guard) > until + Duration::from_millis(5)
    })
    .await;
}

/// Why a hold was lost, which has to be told in time.
pub(crate) async fn lost(guard: &LockGuard) -> LossReason {
    let told = timeout(PROMPT, guard.lost()).await;
    told.expect("the loss is told")
}

/// One attempt.
pub(crate) async fn try_take(
    locks: &RedisLock,
    request: &LockRequest,
) -> lock_core::Result<Option<LockGuard>> {
    locks.acquire(request.clone().without_waiting()).await
}
