//! User, password, database and address from the URL.

use std::time::Duration;

use lock_core::{DistributedLockExt, ErrorKind, Namespace};
use lock_redis::{RedisConfig, RedisLock};
use lock_testkit::servers::RedisServer;
use lock_testkit::steady;
use tokio::time::Instant;

use crate::connect;
use crate::permissions::create_locker;

async fn refusal(url: String) -> lock_core::Error {
    match RedisLock::connect(RedisConfig::new(url)).await {
        Ok(locks) => panic!("connected to {locks:?}"),
        Err(error) => error,
    }
}

#[test]
fn a_password_is_taken_from_the_url_and_never_shown() {
    steady(async || {
        let server = RedisServer::start_with(&["--requirepass", "s3cret"]);
        let address = format!("127.0.0.1:{}", server.port());
        let locks = connect(format!("redis://:s3cret@{address}")).await;
        assert!(locks.lock("k").await.unwrap().is_held());
        for url in [
            format!("redis://:wr0ng@{address}"),
            format!("redis://{address}"),
        ] {
            let error = refusal(url).await;
            assert_eq!(error.kind(), ErrorKind::Denied, "{error}");
            assert!(
                error.to_string().contains("check user and password"),
                "{error}"
            );
        }
        let shown = format!(
            "{locks:?} {:?}",
            RedisConfig::new("redis://user:s3cret@host")
        );
        assert!(!shown.contains("s3cret"), "{shown}");
    });
}

#[test]
fn a_user_with_just_the_permissions_that_are_needed_can_lock() {
    steady(async || {
        let server = RedisServer::start();
        create_locker(&server, "locker", "shop");
        let url = format!("redis://locker:password@127.0.0.1:{}", server.port());
        let namespace = Namespace::new("shop").unwrap();
        let config = RedisConfig::new(url).with_namespace(namespace);
        let locks = RedisLock::connect(config.clone()).await.unwrap();
        let other = RedisLock::connect(config).await.unwrap();
        let guard = locks.lock("k").await.unwrap();
        let (next, released) = tokio::join!(other.lock("k"), guard.release());
        released.unwrap();
        next.unwrap().release().await.unwrap();
        locks
            .lock_shared("k")
            .await
            .unwrap()
            .release()
            .await
            .unwrap();
        locks.permit("k", 2).await.unwrap().release().await.unwrap();
    });
}

#[test]
fn a_user_without_permission_for_the_key_is_denied() {
    steady(async || {
        let server = RedisServer::start();
        let mut admin = server.client();
        let rules = ["ACL", "SETUSER", "locker", "on", ">pw", "~shop:*", "+@all"];
        assert_eq!(admin.command(&rules).unwrap().text().as_deref(), Some("OK"));
        let url = format!("redis://locker:pw@127.0.0.1:{}", server.port());
        let error = refusal(url).await;
        assert_eq!(error.kind(), ErrorKind::Denied, "{error}");
    });
}

#[test]
fn the_database_is_taken_from_the_url() {
    steady(async || {
        let server = RedisServer::start();
        let third = connect(format!("{}/3", server.url())).await;
        let default = connect(server.url()).await;
        let _there = third.lock("k").await.unwrap();
        assert!(
            default.try_lock("k").await.unwrap().is_some(),
            "the two share a database"
        );
        let mut admin = server.client();
        admin.command(&["SELECT", "3"]).unwrap();
        assert_eq!(admin.command(&["EXISTS", "k"]).unwrap().integer(), Some(1));
    });
}

#[test]
fn an_address_where_nobody_answers_is_unavailable_soon() {
    steady(async || {
        let closed = refusal("redis://127.0.0.1:1".into()).await;
        assert_eq!(closed.kind(), ErrorKind::Unavailable, "{closed}");
        let silent = RedisServer::start();
        silent.freeze();
        let begin = Instant::now();
        let error = refusal(silent.url()).await;
        assert_eq!(error.kind(), ErrorKind::Unavailable, "{error}");
        assert!(
            begin.elapsed() < Duration::from_secs(4),
            "{:?}",
            begin.elapsed()
        );
        silent.thaw();
        let malformed = refusal("redis://127.0.0.1:port".into()).await;
        assert_eq!(malformed.kind(), ErrorKind::Config, "{malformed}");
    });
}

/// Redis itself does not go into protected mode behind a loopback address, so somebody else says it.
#[test]
fn a_server_that_lets_nobody_in_denies() {
    steady(async || {
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let refusing = async {
            let (mut stream, _) = listener.accept().await.unwrap();
            let words = b"-DENIED Redis is running in protected mode because\r\n";
            tokio::io::AsyncWriteExt::write_all(&mut stream, words)
                .await
                .unwrap();
        };
        let (error, ()) = tokio::join!(refusal(format!("redis://{address}")), refusing);
        assert_eq!(error.kind(), ErrorKind::Denied, "{error}");
        assert!(error.to_string().contains("protected mode"), "{error}");
    });
}

#[test]
fn a_server_that_is_full_is_unavailable() {
    steady(async || {
        let server = RedisServer::start_with(&["--maxclients", "1"]);
        let mut only = server.client();
        only.command(&["PING"]).unwrap();
        let error = refusal(server.url()).await;
        assert_eq!(error.kind(), ErrorKind::Unavailable, "{error}");
        assert!(error.to_string().contains("maxclients"), "{error}");
    });
}
