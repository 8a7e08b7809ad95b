//! Limits of servers: 60 connections from one address by default, and the size of a request.

use std::time::Duration;

use futures_util::future::{join_all, try_join_all};
use lock_core::backend::Released;
use lock_core::{DistributedLock, ErrorKind, LockGuard, LockRequest, Mode, Wait};
use lock_testkit::faults::Proxy;
use lock_testkit::servers::ZooKeeperServer;
use lock_testkit::{assert_excluded, eventually, steady};
use lock_zookeeper::zookeeper_client::Client;
use lock_zookeeper::{ZooKeeperConfig, ZooKeeperLock};
use tokio::io::AsyncReadExt;
use tokio::net::TcpStream;
use tokio::time::{sleep, timeout};

use crate::{PROMPT, connect, request, take};

/// Starts a server with the default limits.
fn start() -> ZooKeeperServer {
    ZooKeeperServer::start_with(&[
        "tickTime=2000",
        "maxSessionTimeout=40000",
        "maxClientCnxns=60",
    ])
}

fn wanted(key: &str, ttl: Duration) -> LockRequest {
    request(key, Mode::Exclusive).with_ttl(ttl)
}

/// Opens connections until the server accepts no further connection.
async fn use_up(server: &ZooKeeperServer) -> Vec<TcpStream> {
    let mut open = Vec::new();
    for _ in 0..100 {
        let Ok(mut stream) = TcpStream::connect(server.address()).await else {
            return open;
        };
        let closed = timeout(Duration::from_millis(200), stream.read_u8()).await;
        if closed.is_ok() {
            return open;
        }
        open.push(stream);
    }
    panic!("the server takes any number of connections");
}

#[test]
fn a_hundred_ttls_are_a_few_connections() {
    steady(async || {
        let server = start();
        let locks = connect(&server, "/ttls").await;
        let mut guards: Vec<LockGuard> = Vec::new();
        for number in 0..100_u64 {
            let ttl = Duration::from_millis(4_000 + number * 370);
            let guard = take(&locks, wanted(&number.to_string(), ttl)).await;
            let remaining = guard.remaining();
            assert!(
                remaining <= ttl,
                "{ttl:?}: {remaining:?} is more than asked"
            );
            assert!(
                remaining > ttl / 3,
                "{ttl:?}: {remaining:?} is far too little"
            );
            guards.push(guard);
        }
        let open = server.member(0).figure("zk_num_alive_connections").unwrap();
        assert!(open <= 15, "{open} connections for a hundred ttls");
        assert!(guards.iter().all(LockGuard::is_held));
        let others = connect(&server, "/ttls").await;
        let tried = others.acquire(wanted("0", Duration::from_secs(30)).without_waiting());
        assert_excluded!(tried.await.unwrap().is_none());
        for guard in guards {
            guard.release().await.unwrap();
        }
    });
}

#[test]
fn where_no_connection_is_left_the_next_shorter_session_is_used() {
    steady(async || {
        let server = start();
        let locks = connect(&server, "/used-up").await;
        let short = take(&locks, wanted("short", Duration::from_secs(10))).await;
        let long = take(&locks, wanted("long", Duration::from_secs(30))).await;
        let open = async || server.member(0).figure("zk_num_alive_connections");
        // Wait until the short sessions are closed, which only asked for the server's timeout.
        eventually(PROMPT, "two sessions and our question are left", || async {
            open().await <= Some(3)
        })
        .await;
        let used_up = use_up(&server).await;
        for (seconds, at_most) in [(15, 10), (39, 30), (40, 30)] {
            let ttl = Duration::from_secs(seconds);
            let guard = take(&locks, wanted("k", ttl)).await;
            let (remaining, at_most) = (guard.remaining(), Duration::from_secs(at_most));
            assert!(remaining <= at_most, "{ttl:?}: {remaining:?}");
            assert!(remaining > at_most / 2, "{ttl:?}: {remaining:?}");
            guard.release().await.unwrap();
        }
        let shorter = locks.acquire(wanted("k", Duration::from_secs(5)).without_waiting());
        let error = shorter.await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Unavailable, "{error}");
        assert!(error.to_string().contains("maxClientCnxns"), "{error}");
        let second = ZooKeeperLock::connect(ZooKeeperConfig::new(server.address())).await;
        let error = second.unwrap_err();
        assert!(error.to_string().contains("maxClientCnxns"), "{error}");
        assert!(error.to_string().contains(&server.address()), "{error}");
        drop(used_up);
        long.release().await.unwrap();
        short.release().await.unwrap();
    });
}

/// The client closes the short session that asks for the timeout before it opens another session.
///
/// The server may be slow to notice.
#[test]
fn one_connection_beside_its_session_is_enough_to_connect() {
    steady(async || {
        let server = ZooKeeperServer::start_with(&["tickTime=500", "maxClientCnxns=8"]);
        let mut used_up = use_up(&server).await;
        let room = used_up.split_off(used_up.len() - 2);
        for stream in &room {
            stream.set_zero_linger().unwrap();
        }
        drop(room);
        let others = u64::try_from(used_up.len()).unwrap();
        for _ in 0..10 {
            eventually(PROMPT, "two connections are left", || async {
                // One of the open connections is that of `figure`.
                let open = server.member(0).figure("zk_num_alive_connections");
                open.is_some_and(|open| open <= others + 1)
            })
            .await;
            let locks = ZooKeeperLock::connect(ZooKeeperConfig::new(server.address()));
            let locks = locks.await.unwrap();
            locks.shutdown(PROMPT).await.unwrap();
        }
        drop(used_up);
    });
}

/// The end of the lost connection makes room for the next one.
#[test]
fn a_session_goes_on_where_its_address_has_all_its_connections() {
    steady(async || {
        const LIMIT: u64 = 8;
        let server = ZooKeeperServer::start_with(&[
            "tickTime=500",
            "maxSessionTimeout=6000",
            "maxClientCnxns=8",
        ]);
        let proxy = Proxy::before(server.member(0).port());
        let config = ZooKeeperConfig::new(format!("127.0.0.1:{}", proxy.port()));
        let locks = ZooKeeperLock::connect(config).await.unwrap();
        let guard = take(&locks, wanted("k", Duration::from_secs(6))).await;
        // The session that `connect` opened closes after ten idle seconds.
        eventually(3 * PROMPT, "one session is left", || async {
            proxy.all().open() == 1
        })
        .await;
        let mut others = Vec::new();
        for _ in 0..LIMIT {
            let connector = Client::connector()
                .with_session_timeout(Duration::from_secs(6))
                .with_fail_eagerly();
            match connector.connect(&server.address()).await {
                Ok(other) => others.push(other),
                Err(_full) => break,
            }
        }
        assert_eq!(proxy.all().open(), 1);
        assert!(guard.is_held());
        proxy.all().cut();
        let lost = timeout(Duration::from_secs(10), guard.lost()).await;
        assert!(lost.is_err(), "{lost:?}, although there is room for it");
        drop(others);
        guard.release().await.unwrap();
    });
}

/// A server closes the connection of a request that is larger than its limit.
#[test]
fn requests_fit_where_servers_allow_little() {
    steady(async || holds_fit("-Djute.maxbuffer=16384").await);
}

#[test]
fn requests_fit_where_servers_allow_even_less() {
    steady(async || holds_fit("-Djute.maxbuffer=4096").await);
}

/// Checks that renewals of many holds fit, then their releases in two halves.
///
/// The first half may have to find the limit, if no batch of renewals was large enough. A release
/// whose answer is lost with its connection then counts as lost. The second half knows the limit.
async fn holds_fit(setting: &str) {
    let many = hold_many(setting).await;
    many.until_no_connection_ends().await;
    let mut held = many.held;
    let lost = held.iter().filter(|guard| !guard.is_held()).count();
    assert_eq!(lost, 0, "of {MANY}");
    let second = held.split_off(MANY / 2);
    let first = try_join_all(held.into_iter().map(LockGuard::release)).await;
    assert_eq!(first.expect("the server runs").len(), MANY / 2);
    let connections = many.proxy.all().count();
    for released in join_all(second.into_iter().map(LockGuard::release)).await {
        let released = released.expect("the server runs");
        assert_eq!(released, Released::Released);
    }
    assert_eq!(many.proxy.all().count(), connections);
}

#[test]
fn releases_fit_before_anything_was_renewed() {
    steady(async || {
        let many = hold_many("-Djute.maxbuffer=16384").await;
        // Some releases lose their answers with the connection, and report `AlreadyLost`.
        let released = try_join_all(many.held.into_iter().map(LockGuard::release)).await;
        assert_eq!(released.expect("the server runs").len(), MANY);
        eventually(PROMPT, "no claim is left", || async {
            many.server.member(0).figure("zk_ephemerals_count") == Some(0)
        })
        .await;
    });
}

const MANY: usize = 1_000;

/// Many holds on a server with a setting of its own.
struct Many {
    server: ZooKeeperServer,
    proxy: Proxy,
    held: Vec<LockGuard>,
}

impl Many {
    /// Waits until no connection ends for the time of three renewals.
    async fn until_no_connection_ends(&self) {
        const RENEWALS: Duration = Duration::from_secs(5);
        for _ in 0..10 {
            let connections = self.proxy.all().count();
            sleep(RENEWALS).await;
            if self.proxy.all().count() == connections {
                return;
            }
        }
        panic!("connections still end");
    }
}

async fn hold_many(setting: &str) -> Many {
    let server = ZooKeeperServer::start_with(&[setting]);
    let proxy = Proxy::before(server.member(0).port());
    let config = ZooKeeperConfig::new(format!("127.0.0.1:{}", proxy.port()));
    let locks = ZooKeeperLock::connect(config).await;
    let locks = locks.expect("the server runs");
    let taking = (0..MANY).map(|number| {
        let key = format!("a/name/of/forty/characters/in/all/{number:06}");
        let wanted = wanted(&key, Duration::from_secs(5));
        // A server that has just started may be slow.
        locks.acquire(wanted.with_wait(Wait::within(PROMPT)))
    });
    let held = try_join_all(taking).await.expect("the server runs");
    let held: Vec<LockGuard> = held.into_iter().flatten().collect();
    assert_eq!(held.len(), MANY);
    Many {
        server,
        proxy,
        held,
    }
}

#[test]
fn a_single_request_that_is_too_large_names_the_limit() {
    steady(async || {
        let server = ZooKeeperServer::start_with(&["-Djute.maxbuffer=2048"]);
        let locks = connect(&server, &"/level-of-a-deep-chroot".repeat(100)).await;
        let tried = locks.acquire(wanted("k", Duration::from_secs(5)).without_waiting());
        let error = tried.await.expect_err("the path is too long");
        assert!(error.to_string().contains("jute.maxbuffer"), "{error}");
        let waited = locks.acquire(wanted("k", Duration::from_secs(5)));
        let waited = timeout(PROMPT, waited).await.expect("it does not wait");
        let error = waited.expect_err("the path is too long");
        assert!(error.to_string().contains("jute.maxbuffer"), "{error}");
        let others = connect(&server, "/short").await;
        let guard = take(&others, wanted("k", Duration::from_secs(5))).await;
        guard.release().await.expect("the server runs");
    });
}
