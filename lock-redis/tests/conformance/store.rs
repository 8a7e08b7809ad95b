//! A Redis server as a store of the conformance cases.

use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use async_trait::async_trait;
use lock_core::{DistributedLock, LockKey, LockRequest, Mode};
use lock_testkit::servers::{RedisServer, Reply, RespClient, ServerProcess};
use lock_testkit::{Case, Need, Store};

/// A function that connects a client to a server, in a namespace.
pub(crate) type Connect = for<'a> fn(&'a RedisServer, &'a str) -> Connecting<'a>;

type Connecting<'a> = Pin<Box<dyn Future<Output = Arc<dyn DistributedLock>> + Send + 'a>>;

#[derive(Clone, Copy)]
pub(crate) struct Servers {
    /// Starts a server with further arguments, for a case that freezes or restarts it.
    pub(crate) start: fn(&[&str]) -> RedisServer,
    /// Returns the server of all other cases.
    pub(crate) shared: fn() -> &'static RedisServer,
    /// True if a restarted server still has its users.
    pub(crate) keeps_users: bool,
    /// Returns the address by which another process connects to a namespace on a server.
    pub(crate) address: Option<fn(&RedisServer, &str) -> String>,
}

pub(crate) const PLAIN: Servers = Servers {
    start: |arguments| RedisServer::start_with(arguments),
    shared: RedisServer::shared,
    keeps_users: true,
    address: None,
};

/// The arguments with which a restarted server has all data that it confirmed before.
const KEPT: [&str; 4] = ["--appendonly", "yes", "--appendfsync", "always"];

/// A namespace on a server, which is shared unless the case freezes or restarts it.
pub(crate) struct RedisStore {
    own: Option<RedisServer>,
    servers: Servers,
    namespace: String,
    connect: Connect,
}

impl RedisStore {
    pub(crate) fn for_case(case: Case, servers: Servers, connect: Connect) -> Self {
        static STORES: AtomicU64 = AtomicU64::new(0);

        // Without colons, which are escaped on the server. The number separates runs of one case at
        // the same time.
        let name = case.to_string().replace("::", ".");
        let number = STORES.fetch_add(1, Ordering::Relaxed);
        let more: &[&str] = match case.needs(Need::Switchover) {
            true => &KEPT,
            false => &[],
        };
        let alone = case.needs(Need::Freeze) || case.needs(Need::Switchover);
        Self {
            own: alone.then(|| (servers.start)(more)),
            servers,
            namespace: format!("{name}.{number}"),
            connect,
        }
    }

    fn server(&self) -> &RedisServer {
        self.own.as_ref().unwrap_or_else(|| (self.servers.shared)())
    }

    fn admin(&self) -> RespClient {
        self.server().client()
    }

    fn wire_key(&self, key: &LockKey) -> String {
        format!("{}:{key}", self.namespace)
    }
}

#[async_trait]
impl Store for RedisStore {
    async fn client(&self) -> Arc<dyn DistributedLock> {
        (self.connect)(self.server(), &self.namespace).await
    }

    fn takes_turns(&self) -> bool {
        true
    }

    async fn residue(&self) -> Vec<String> {
        let keys = self
            .admin()
            .command(&["KEYS", &format!("{}:*", self.namespace)])
            .expect("the server runs");
        let Reply::Array(keys) = keys else {
            panic!("KEYS answers a list, not {keys:?}");
        };
        let counter = Reply::Text([self.namespace.as_bytes(), b":\xffgrants"].concat());
        let left = keys.into_iter().filter(|key| *key != counter).collect();
        Reply::Array(left).texts()
    }

    async fn remove(&self, key: &LockKey) -> bool {
        let removed = self.admin().command(&["DEL", &self.wire_key(key)]);
        removed.expect("the server runs").integer() == Some(1)
    }

    async fn crash(&self, request: LockRequest) -> bool {
        let (key, ttl) = (
            self.wire_key(&request.key),
            request.ttl().as_millis().to_string(),
        );
        let member = |mark| ["EVAL", CRASHED_MEMBER, "1", &key, &ttl, mark];
        let command = match request.mode {
            Mode::Exclusive => ["SET", &key, "of the dead", "NX", "PX", &ttl],
            Mode::Shared => member("s0000000000000000000000000000dead"),
            Mode::Permit { .. } => member("p0000000000000000000000000000dead"),
            other => panic!("no crash of {other:?} is known"),
        };
        let reply = self.admin().command(&command);
        !matches!(
            reply.expect("the server runs"),
            Reply::Nil | Reply::Error(_)
        )
    }

    async fn switch_over(&self) -> bool {
        let server = self.own.as_ref().filter(|_| self.servers.keeps_users);
        tokio::task::block_in_place(|| server.map(|server| server.restart())).is_some()
    }

    fn address(&self) -> Option<String> {
        let address = self.servers.address?;
        Some(address(self.server(), &self.namespace))
    }

    fn process(&self) -> Option<&ServerProcess> {
        self.own.as_deref()
    }

    fn ttl(&self) -> Duration {
        Duration::from_secs(1)
    }
}

/// A script that enters a reader or the holder of a permit that never renews.
const CRASHED_MEMBER: &str = "
local now = redis.call('TIME')
local expires = now[1] * 1000 + math.floor(now[2] / 1000) + ARGV[1]
redis.call('ZADD', KEYS[1], expires, ARGV[2])
return redis.call('PEXPIREAT', KEYS[1], expires)";
