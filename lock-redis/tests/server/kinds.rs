//! Servers without some commands, cluster nodes and sentinels.

use std::net::TcpListener;
use std::time::Duration;

use lock_core::{DistributedLock, DistributedLockExt, Error, ErrorKind, LossReason};
use lock_redis::{RedisConfig, RedisLock};
use lock_testkit::servers::{RedisServer, RespClient};
use lock_testkit::{eventually, steady};
use tokio::time::{Instant, timeout};

use crate::{connect, lock_for};

const PROMPT: Duration = Duration::from_secs(5);

async fn refusal(url: String) -> Error {
    match RedisLock::connect(RedisConfig::new(url)).await {
        Ok(locks) => panic!("connected to {locks:?}"),
        Err(error) => error,
    }
}

/// Returns the url of a new user of `server` with all permissions that `rule` does not remove.
fn user_without(server: &RedisServer, rule: &str) -> String {
    let user = ["ACL", "SETUSER", "u", "on", ">p", "~*", "&*", "+@all", rule];
    let answer = server.client().command(&user).expect("the server runs");
    assert_eq!(answer.text().as_deref(), Some("OK"), "{answer:?}");
    format!("redis://u:p@127.0.0.1:{}", server.port())
}

/// Waits for a grant to `locks`, and returns its time.
async fn next(locks: &RedisLock) -> Instant {
    let guard = locks.lock("k").await.expect("the server runs");
    let granted = Instant::now();
    guard.release().await.expect("the server runs");
    granted
}

/// Checks that all modes work, that a waiter gets its turn soon, and that a renewal notices a
/// removal.
async fn works_without_pushes(url: String, server: &RedisServer) {
    const RUNS: &str = "the server runs";
    let (locks, others) = (connect(&*url).await, connect(url).await);
    assert!(!locks.capabilities().push, "{:?}", locks.capabilities());
    let held = locks.lock("k").await.expect(RUNS);
    let releasing = async {
        tokio::time::sleep(Duration::from_millis(300)).await;
        held.release().await.expect(RUNS);
        Instant::now()
    };
    let (granted, released) = tokio::join!(next(&others), releasing);
    let took = granted.saturating_duration_since(released);
    assert!(took < Duration::from_millis(400), "{took:?}");

    let reader = locks.lock_shared("k").await.expect(RUNS);
    assert!(
        others.try_lock("k").await.expect(RUNS).is_none(),
        "two holders"
    );
    let beside = others.lock_shared("k").await.expect(RUNS);
    beside.release().await.expect(RUNS);
    reader.release().await.expect(RUNS);
    let permit = locks.permit("k", 2).await.expect(RUNS);
    permit.release().await.expect(RUNS);

    let ttl = Duration::from_millis(1500);
    let guard = lock_for(&locks, "gone", ttl).await;
    server.client().command(&["DEL", "gone"]).expect(RUNS);
    let lost = timeout(ttl, guard.lost()).await;
    assert_eq!(lost.expect("told by a renewal"), LossReason::Removed);
}

#[test]
fn a_server_that_lets_nobody_listen_is_looked_at() {
    steady(async || {
        for rule in ["-client|tracking", "-client|caching", "-client"] {
            let server = RedisServer::start();
            let url = user_without(&server, rule);
            works_without_pushes(url, &server).await;
        }
    });
}

#[test]
fn a_server_that_has_no_client_commands_is_looked_at() {
    steady(async || {
        let server = RedisServer::start_with(&["--rename-command", "CLIENT", ""]);
        works_without_pushes(server.url(), &server).await;
    });
}

#[test]
fn a_server_that_pushes_says_so() {
    steady(async || {
        assert!(
            connect(RedisServer::start().url())
                .await
                .capabilities()
                .push
        );
    });
}

#[test]
fn a_server_without_scripts_is_refused_by_the_name_of_the_command() {
    steady(async || {
        for (command, rule) in [
            ("EVAL", "-eval"),
            ("EVALSHA", "-evalsha"),
            ("EVAL", "-@scripting"),
        ] {
            let server = RedisServer::start();
            let error = refusal(user_without(&server, rule)).await;
            assert_eq!(error.kind(), ErrorKind::Unsupported, "{error}");
            let named = format!("does not run {command},");
            assert!(error.to_string().contains(&named), "{error}");
        }
        for command in ["EVAL", "EVALSHA"] {
            let server = RedisServer::start_with(&["--rename-command", command, ""]);
            let error = refusal(server.url()).await;
            assert_eq!(error.kind(), ErrorKind::Unsupported, "{error}");
            let named = format!("does not run {command},");
            assert!(error.to_string().contains(&named), "{error}");
        }
        for command in ["PEXPIRE", "TIME", "ZSCORE", "SET", "HDEL"] {
            let server = RedisServer::start_with(&["--rename-command", command, ""]);
            let error = refusal(server.url()).await;
            assert_eq!(error.kind(), ErrorKind::Unsupported, "{error}");
            let named = format!("does not have {command},");
            assert!(error.to_string().contains(&named), "{error}");
        }
        let server = RedisServer::start_with(&["--rename-command", "HELLO", ""]);
        let error = refusal(server.url()).await;
        assert_eq!(error.kind(), ErrorKind::Unsupported, "{error}");
        assert!(error.to_string().contains("RESP2"), "{error}");
        // The client needs no `SCRIPT` command.
        let server = RedisServer::start();
        let locks = connect(user_without(&server, "-script")).await;
        locks.lock("k").await.unwrap().release().await.unwrap();
    });
}

fn free_port() -> u16 {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    listener.local_addr().expect("an address").port()
}

#[test]
fn a_node_of_a_cluster_is_refused_by_name() {
    steady(async || {
        let bus = free_port().to_string();
        let server = RedisServer::start_with(&["--cluster-enabled", "yes", "--cluster-port", &bus]);
        let error = refusal(server.url()).await;
        assert_eq!(error.kind(), ErrorKind::Unsupported, "{error}");
        assert!(
            error.to_string().contains("a Redis Cluster node"),
            "{error}"
        );
        assert!(error.to_string().contains("use a single server"), "{error}");
        let slots = ["CLUSTER", "ADDSLOTSRANGE", "0", "16383"];
        server.client().command(&slots).unwrap();
        let error = refusal(server.url()).await;
        assert_eq!(error.kind(), ErrorKind::Unsupported, "{error}");
    });
}

#[test]
fn a_sentinel_is_refused_by_name() {
    steady(async || {
        let directory = tempfile::tempdir().unwrap();
        let (port, file) = (free_port(), directory.path().join("sentinel.conf"));
        std::fs::write(&file, format!("port {port}\nbind 127.0.0.1\n")).unwrap();
        let mut sentinel = std::process::Command::new("redis-server")
            .arg(&file)
            .arg("--sentinel")
            .stdout(std::process::Stdio::null())
            .spawn()
            .unwrap();
        eventually(PROMPT, "it answers", || async {
            RespClient::connect(port).is_ok_and(|mut client| client.command(&["PING"]).is_ok())
        })
        .await;
        let error = refusal(format!("redis://127.0.0.1:{port}")).await;
        sentinel.kill().unwrap();
        sentinel.wait().unwrap();
        assert_eq!(error.kind(), ErrorKind::Unsupported, "{error}");
        assert!(error.to_string().contains("a Redis Sentinel"), "{error}");
    });
}
