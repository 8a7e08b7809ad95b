//! User, password, database and address from the URL.

use std::time::Duration;

use lock_core::{DistributedLockExt, ErrorKind, Namespace};
use lock_redis::{RedisConfig, RedisLock};
use lock_testkit::servers::RedisServer;
use tokio::time::Instant;

use crate::connect;

async fn refusal(url: String) -> lock_core::Error {
    match RedisLock::connect(RedisConfig::new(url)).await {
        Ok(locks) => panic!("connected to {locks:?}"),
        Err(error) => error,
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_password_is_taken_from_the_url_and_never_shown() {
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
}

#[tokio::test(flavor = "multi_thread")]
async fn a_user_with_just_the_permissions_that_are_needed_can_lock() {
    let user = "locker on >pw resetkeys ~shop:* resetchannels -@all \
        +evalsha +eval +get +set +incr +del +pexpire +pexpireat +persist +pttl +type +time \
        +zadd +zrem +zrange +zrangebyscore +zscore +zcard +hset +hget +hdel \
        +hello +auth +ping +client|tracking +client|setinfo";
    let server = RedisServer::start();
    let mut admin = server.client();
    let mut command = vec!["ACL", "SETUSER"];
    command.extend(
        user.split_whitespace()
            .filter(|rule| *rule != "+client|setinfo"),
    );
    let reply = admin.command(&command).unwrap();
    assert_eq!(reply.text().as_deref(), Some("OK"), "{reply:?}");

    let url = format!("redis://locker:pw@127.0.0.1:{}", server.port());
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
}

#[tokio::test(flavor = "multi_thread")]
async fn a_user_without_permission_for_the_key_is_denied() {
    let server = RedisServer::start();
    let mut admin = server.client();
    let rules = ["ACL", "SETUSER", "locker", "on", ">pw", "~shop:*", "+@all"];
    assert_eq!(admin.command(&rules).unwrap().text().as_deref(), Some("OK"));
    let url = format!("redis://locker:pw@127.0.0.1:{}", server.port());
    let error = refusal(url).await;
    assert_eq!(error.kind(), ErrorKind::Denied, "{error}");
}

#[tokio::test(flavor = "multi_thread")]
async fn the_database_is_taken_from_the_url() {
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
}

#[tokio::test(flavor = "multi_thread")]
async fn an_address_where_nobody_answers_is_unavailable_soon() {
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
}
