//! Clients of the driver that name the server.

use std::time::Duration;

use lock_core::{DistributedLock, DistributedLockExt, ErrorKind, KeeperMode, Namespace};
use lock_redis::redis::{Client, ConnectionAddr, IntoConnectionInfo};
use lock_redis::{RedisConfig, RedisLock};
use lock_testkit::servers::RedisServer;
use lock_testkit::{answered, assert_excluded, block_thread, steady};

use crate::{connect, lock_for};

fn config() -> RedisConfig {
    RedisConfig::default()
}

async fn open(client: &Client, config: RedisConfig) -> RedisLock {
    answered(|| RedisLock::from_client(client, config.clone())).await
}

async fn refusal(client: &Client, config: RedisConfig) -> String {
    let error = RedisLock::from_client(client, config).await;
    let error = error.expect_err("refused");
    assert_eq!(error.kind(), ErrorKind::Config, "{error}");
    error.to_string()
}

/// Returns a client whose address says how it would verify the server.
fn secure(port: u16, insecure: bool) -> Client {
    let info = "redis://127.0.0.1".into_connection_info();
    let info = info.expect("a url of the driver");
    let address = ConnectionAddr::TcpTls {
        host: "127.0.0.1".to_owned(),
        port,
        insecure,
        tls_params: None,
    };
    Client::open(info.set_addr(address)).expect("an address")
}

#[test]
fn server_user_and_database_are_those_of_the_client() {
    steady(async || {
        let user = ["--user", "locker", "on", ">s3cret", "~*", "&*", "+@all"];
        let server = RedisServer::start_with(&user);
        let at = format!("locker:s3cret@127.0.0.1:{}/3", server.port());
        let client = Client::open(format!("redis://{at}")).unwrap();
        let namespace = Namespace::new("shop").unwrap();
        let locks = open(&client, config().with_namespace(namespace)).await;
        assert!(locks.capabilities().push);
        let guard = locks.lock("k").await.unwrap();
        let others = connect(format!("redis://{at}")).await;
        assert_excluded!(others.try_lock("shop:k").await.unwrap().is_none());
        let elsewhere = connect(server.url()).await;
        assert!(elsewhere.try_lock("shop:k").await.unwrap().is_some());
        guard.release().await.unwrap();
        assert!(!format!("{locks:?}").contains("s3cret"));
    });
}

#[test]
fn a_wrong_password_and_a_missing_server_are_told_as_for_a_url() {
    steady(async || {
        let server = RedisServer::start_with(&["--requirepass", "right"]);
        let url = format!("redis://:wrong@127.0.0.1:{}", server.port());
        let client = Client::open(url).unwrap();
        let error = RedisLock::from_client(&client, config()).await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Denied, "{error}");
        server.kill();
        let error = RedisLock::from_client(&client, config()).await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Unavailable, "{error}");
        let address = format!("127.0.0.1:{}", server.port());
        assert_eq!(error.server(), Some(&*address));
    });
}

#[tokio::test]
async fn what_would_not_be_verified_is_refused() {
    let error = refusal(&secure(1, true), config()).await;
    assert!(error.contains("does not verify its server"), "{error}");
    let plain = Client::open("redis://127.0.0.1:1").unwrap();
    let error = refusal(&plain, RedisConfig::new("redis://a")).await;
    assert!(error.contains("leave the url empty"), "{error}");
    let tls = lock_core::Tls::new().with_ca("/ca.pem");
    let error = refusal(&plain, config().with_tls(tls)).await;
    assert!(
        error.contains("tls_ca is set, and the client has no TLS"),
        "{error}"
    );
    let error = RedisLock::connect(config()).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Config, "{error}");
}

#[cfg(feature = "tls")]
#[test]
fn a_client_with_tls_is_verified_by_the_files_of_the_configuration() {
    use lock_core::Tls;
    use lock_testkit::servers::Authority;

    steady(async || {
        let authority = Authority::new();
        let server = RedisServer::start_with_tls::<&str>(&authority, &[]);
        let url = server.tls_url().expect("it was started with TLS");
        let port = url.rsplit(':').next().expect("a port").parse().unwrap();
        let client = secure(port, false);
        let trusting = config().with_tls(Tls::new().with_ca(authority.ca()));
        let locks = open(&client, trusting).await;
        assert!(locks.try_lock("k").await.unwrap().is_some());
        let error = RedisLock::from_client(&client, config()).await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Denied, "{error}");
    });
}

/// The client's own connections are not used, so an application that blocks its runtime with them
/// keeps its locks.
#[test]
fn a_blocked_runtime_keeps_its_locks() {
    steady(async || {
        let server = RedisServer::start();
        let client = Client::open(server.url()).unwrap();
        let mut own = client.get_multiplexed_async_connection().await.unwrap();
        let locks = open(&client, config().with_keeper(KeeperMode::Thread)).await;
        let guard = lock_for(&locks, "k", Duration::from_millis(900)).await;
        block_thread(Duration::from_millis(2500));
        assert!(guard.is_held());
        let pong: String = lock_redis::redis::cmd("PING")
            .query_async(&mut own)
            .await
            .unwrap();
        assert_eq!(pong, "PONG");
        guard.release().await.unwrap();
    });
}
