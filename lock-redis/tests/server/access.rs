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

/// In protected mode Redis refuses remote clients only, so a listener sends the error.
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

/// Checks that `connect` fails with `kind`, and that the error has each of `words` once.
async fn assert_says(url: &str, kind: ErrorKind, words: &[&str]) {
    let error = refusal(url.to_owned()).await;
    let mut chain = vec![error.to_string()];
    let mut next = std::error::Error::source(&error);
    while let Some(source) = next {
        chain.push(source.to_string());
        next = source.source();
    }
    let said = chain.join(": ");
    assert_eq!(error.kind(), kind, "{said}");
    for word in words {
        assert_eq!(said.matches(word).count(), 1, "{word} in {said}");
    }
    assert!(!said.contains("s3cret"), "{said}");
}

#[test]
fn errors_name_the_server_and_what_to_do() {
    steady(async || {
        let server = RedisServer::start();
        let at = format!("cannot connect to redis at 127.0.0.1:{}: ", server.port());
        let database = format!("{}/99", server.url());
        assert_says(
            &database,
            ErrorKind::Config,
            &[&at, "no database of that number"],
        )
        .await;
        let closed = "cannot connect to redis at 127.0.0.1:1: ";
        assert_says(
            "redis://:s3cret@127.0.0.1:1",
            ErrorKind::Unavailable,
            &[closed, "Connection refused"],
        )
        .await;
        for (url, words) in [
            ("redis://one:6379,two:6379", "several servers"),
            ("redis://:s3cret@one:6379,two:6379/0", "several servers"),
            ("redis://:s3c/s3cret@host:6379/0", "/ as %2F"),
            ("redis://u:s3cret?@host:6379", "? as %3F"),
            ("redis://u:s3cret@x@host", "write it as %40"),
        ] {
            assert_says(url, ErrorKind::Config, &[words]).await;
        }
        let full = RedisServer::start_with(&["--maxclients", "1"]);
        let mut only = full.client();
        only.command(&["PING"]).unwrap();
        let at = format!("at 127.0.0.1:{}: ", full.port());
        assert_says(
            &full.url(),
            ErrorKind::Unavailable,
            &[&at, "raise maxclients"],
        )
        .await;
    });
}

#[test]
fn a_lost_connection_names_the_server() {
    steady(async || {
        let server = RedisServer::start();
        let locks = connect(server.url()).await;
        server.freeze();
        let error = locks.try_lock("k").await.unwrap_err();
        server.thaw();
        let words = format!(
            "cannot acquire lock \"k\" on redis at 127.0.0.1:{}: ",
            server.port()
        );
        assert!(error.to_string().starts_with(&words), "{error}");
        server.kill();
        let error = locks.try_lock("k").await.unwrap_err();
        assert!(
            error.to_string().contains(&server.port().to_string()),
            "{error}"
        );
    });
}

#[test]
fn a_password_may_have_any_character() {
    steady(async || {
        let server = RedisServer::start_with(&["--requirepass", "a+b=c/d@e"]);
        for password in ["a+b=c%2Fd%40e", "a%2Bb%3Dc%2Fd%40e"] {
            let url = format!("redis://:{password}@127.0.0.1:{}", server.port());
            connect(url)
                .await
                .lock("k")
                .await
                .unwrap()
                .release()
                .await
                .unwrap();
        }
    });
}

/// Foreign servers answer the client's first bytes, or close the connection.
#[test]
fn a_server_of_another_kind_is_told_as_such() {
    steady(async || {
        for (greeting, words) in [
            (
                &b"HTTP/1.1 400 Bad Request\r\n\r\n"[..],
                "really a Redis server",
            ),
            (b"J\0\0\0\x0a8.0.36\0", "really a Redis server"),
            (b"", "whether it is a Redis server"),
        ] {
            let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
            let address = listener.local_addr().unwrap();
            let answering = async {
                let (mut stream, _) = listener.accept().await.unwrap();
                let mut asked = [0; 14];
                tokio::io::AsyncReadExt::read_exact(&mut stream, &mut asked)
                    .await
                    .unwrap();
                tokio::io::AsyncWriteExt::write_all(&mut stream, greeting)
                    .await
                    .unwrap();
                // Only the server without an answer closes the connection.
                (!greeting.is_empty()).then_some(stream)
            };
            let (error, _stream) = tokio::join!(refusal(format!("redis://{address}")), answering);
            assert!(error.to_string().contains(words), "{error}");
            assert!(error.to_string().contains(&address.to_string()), "{error}");
        }
    });
}
