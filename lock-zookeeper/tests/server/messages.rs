//! Errors for unusable servers, which name the server, the problem and the next step.

use lock_core::{DistributedLockExt, Error, ErrorKind};
use lock_testkit::servers::ZooKeeperServer;
use lock_testkit::steady;
use lock_zookeeper::{ZooKeeperConfig, ZooKeeperLock};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpListener;
use tokio::task::JoinSet;

use crate::connect;

async fn refusal(config: ZooKeeperConfig) -> Error {
    match ZooKeeperLock::connect(config).await {
        Ok(locks) => panic!("connected to {locks:?}"),
        Err(error) => error,
    }
}

/// Starts a server that sends `words` after a client's first byte, or at once if it `speaks_first`.
async fn stranger(words: &'static [u8], speaks_first: bool) -> (String, JoinSet<()>) {
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
    let address = listener.local_addr().expect("an address").to_string();
    let mut answering = JoinSet::new();
    answering.spawn(async move {
        while let Ok((mut stream, _)) = listener.accept().await {
            if !speaks_first && stream.read_u8().await.is_err() {
                continue;
            }
            let _closed = stream.write_all(words).await;
        }
    });
    (address, answering)
}

fn assert_says(error: &Error, address: &str, part: &str) {
    assert_eq!(error.kind(), ErrorKind::Unavailable, "{error}");
    let text = error.to_string();
    assert!(text.contains(address) && text.contains(part), "{text}");
}

#[test]
fn a_server_that_is_not_there_is_named() {
    steady(async || {
        let error = refusal(ZooKeeperConfig::new("127.0.0.1:1")).await;
        assert_says(&error, "127.0.0.1:1", "refused");
        let error = refusal(ZooKeeperConfig::new("nowhere.invalid")).await;
        assert_says(&error, "nowhere.invalid:2181", "check host and port");
        let silent = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = silent.local_addr().unwrap().to_string();
        let error = refusal(ZooKeeperConfig::new(&address)).await;
        assert_says(&error, &address, "no answer");
    });
}

#[test]
fn what_is_no_zookeeper_is_told() {
    steady(async || {
        let (redis, _answering) = stranger(b"-ERR unknown command\r\n", false).await;
        let error = refusal(ZooKeeperConfig::new(&redis)).await;
        assert_says(
            &error,
            &redis,
            "a Redis server answers there: use redis://, or",
        );
        let (mysql, _answering) = stranger(b"J\0\0\0\x0a8.0.36\0", true).await;
        let error = refusal(ZooKeeperConfig::new(&mysql)).await;
        assert_says(
            &error,
            &mysql,
            "a MySQL server answers there: use mysql://, or",
        );
        let (http, _answering) = stranger(b"HTTP/1.1 400 Bad Request\r\n\r\n", false).await;
        let error = refusal(ZooKeeperConfig::new(&http)).await;
        let advice = "something else than ZooKeeper answers there: use the port of ZooKeeper, 2181";
        assert_says(&error, &http, advice);
    });
}

#[cfg(feature = "tls")]
#[test]
fn tls_at_a_plain_port_and_the_reverse_are_told() {
    use lock_core::Tls;
    use lock_testkit::servers::Authority;

    steady(async || {
        let authority = Authority::new();
        let server = ZooKeeperServer::start_with_tls(&authority, &[]);
        let address = server.tls_address().unwrap();
        let error = refusal(ZooKeeperConfig::new(&address)).await;
        assert_says(&error, &address, "speaks TLS there");
        let plain = ZooKeeperServer::shared().address();
        let tls = Tls::new().with_ca(authority.ca());
        let error = refusal(ZooKeeperConfig::new(&plain).with_tls(tls)).await;
        assert_says(&error, &plain, "speaks plain text there");
    });
}

#[test]
fn a_connection_that_is_lost_names_the_server() {
    steady(async || {
        let server = ZooKeeperServer::start();
        let locks = connect(&server, "/lost").await;
        server.member(0).kill();
        let error = locks.try_lock("k").await.unwrap_err();
        assert_says(&error, &server.address(), "");
    });
}
