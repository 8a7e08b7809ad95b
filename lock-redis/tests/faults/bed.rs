//! A server of its own behind a proxy.

use std::time::Duration;

use lock_core::{DistributedLock, LockGuard, LockRequest, LossReason, Wait};
use lock_redis::{RedisConfig, RedisLock};
use lock_testkit::faults::{Connections, Proxy};
use lock_testkit::servers::{RedisServer, Reply, RespClient};
use lock_testkit::{answered, eventually};
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

    /// Connects a client through the proxy.
    pub(crate) async fn client(&self) -> RedisLock {
        connect(format!("redis://127.0.0.1:{}", self.proxy.port())).await
    }

    /// Connects a client that no fault reaches.
    pub(crate) async fn direct(&self) -> RedisLock {
        connect(self.server.url()).await
    }

    /// Returns the connections for takes, releases and pushes to waiters.
    ///
    /// A client names the counter of grants in the first bytes on such a connection.
    pub(crate) fn command(&self) -> Connections<'_> {
        self.proxy.opened_with(COUNTER)
    }

    /// Returns the connections for renewals and pushes to the keeper, which track all keys they
    /// read.
    pub(crate) fn background(&self) -> Connections<'_> {
        self.proxy.opened_with("ON\r\n$6\r\nNOLOOP")
    }

    pub(crate) fn admin(&self) -> RespClient {
        self.server.client()
    }

    pub(crate) fn ask(&self, command: &[&str]) -> Reply {
        self.admin().command(command).expect("the server runs")
    }

    /// Returns the number of the last grant.
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

    /// Returns the time after which the server would remove the key.
    pub(crate) fn expires_in(&self, key: &str) -> Duration {
        let left = self.ask(&["PTTL", key]).integer().unwrap_or_default();
        Duration::from_millis(u64::try_from(left).unwrap_or_default())
    }

    /// Returns the number of times that the server has executed `command`.
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

    /// Returns the number of scripts that clients have sent, by hash or by source.
    pub(crate) fn scripts(&self) -> u64 {
        self.calls("evalsha") + self.calls("eval")
    }

    /// Returns a figure of the server's statistics.
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
    answered(|| RedisLock::connect(config.clone())).await
}

/// Returns a request in each mode, on keys of their own.
pub(crate) fn in_all_modes(key: &str, ttl: Duration) -> [LockRequest; 3] {
    [
        LockRequest::exclusive(key),
        LockRequest::shared(format!("{key} shared")),
        LockRequest::permit(format!("{key} permit"), 2),
    ]
    .map(|request| request.expect("a key").with_ttl(ttl))
}

pub(crate) fn exclusive(key: &str, ttl: Duration) -> LockRequest {
    LockRequest::exclusive(key).expect("a key").with_ttl(ttl)
}

/// Takes a free lock, and outlasts broken connections.
pub(crate) async fn take(locks: &RedisLock, request: &LockRequest) -> LockGuard {
    let request = request.clone().with_wait(Wait::within(PROMPT));
    let answer = locks
        .acquire(request)
        .await
        .expect("the server can be reached in time");
    answer.expect("free")
}

/// Returns the end of a hold's validity, which only a renewal moves.
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

/// Waits for the loss of a hold, and returns its reason.
pub(crate) async fn lost(guard: &LockGuard) -> LossReason {
    let told = timeout(PROMPT, guard.lost()).await;
    told.expect("the loss is told")
}

/// Tries a take without waiting.
pub(crate) async fn try_take(
    locks: &RedisLock,
    request: &LockRequest,
) -> lock_core::Result<Option<LockGuard>> {
    locks.acquire(request.clone().without_waiting()).await
}
