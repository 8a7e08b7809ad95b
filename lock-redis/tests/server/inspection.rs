//! Holders of other programs and of earlier versions, as an inspection shows them.

use std::time::Duration;

use lock_core::{DistributedLock, DistributedLockExt, HolderInfo, LockRequest, Mode};
use lock_redis::RedisLock;
use lock_testkit::servers::RedisServer;
use lock_testkit::steady;

use crate::connect;

const EARLIER: &str = "00000000000000000000000000000abc";

async fn only_holder(locks: &RedisLock, key: &str) -> HolderInfo {
    let info = locks.inspect(key).await.expect("the server runs");
    let [holder] = &info.holders[..] else {
        panic!("there is one holder: {info:?}");
    };
    holder.clone()
}

#[test]
fn what_others_have_stored_is_shown_as_far_as_it_goes() {
    steady(async || {
        let server = RedisServer::start();
        let locks = connect(server.url()).await;
        let mut admin = server.client();
        let mut run = |command: &[&str]| admin.command(command).expect("the server runs");
        run(&["SET", "theirs", "host=a pid=1 since=1", "PX", "30000"]);
        let theirs = only_holder(&locks, "theirs").await;
        assert!(theirs.foreign && theirs.pid.is_none(), "{theirs:?}");
        assert!(
            theirs
                .ttl_left
                .is_some_and(|left| left > Duration::from_secs(20))
        );

        run(&["SET", "endless", "theirs"]);
        assert_eq!(only_holder(&locks, "endless").await.ttl_left, None);

        run(&["SET", "earlier", &format!("{EARLIER}:7"), "PX", "30000"]);
        let earlier = only_holder(&locks, "earlier").await;
        assert!(!earlier.foreign && earlier.host.is_none(), "{earlier:?}");
        assert_eq!(earlier.token.map(|token| token.value()), Some(7 << 14));

        run(&["ZADD", "readers", "9999999999999", &format!("s{EARLIER}")]);
        run(&["ZADD", "readers", "1", "s0000000000000000000000000000dead"]);
        let tokens = b"readers\xfftokens".as_slice();
        let field = format!("s{EARLIER}");
        let stored = server
            .client()
            .command(&[b"HSET", tokens, field.as_bytes(), b"8"]);
        stored.expect("the server runs");
        let reader = only_holder(&locks, "readers").await;
        assert_eq!(reader.mode, Some(Mode::Shared), "the other one has expired");
        assert_eq!(reader.token.map(|token| token.value()), Some(8 << 14));
    });
}

#[test]
fn an_inspection_changes_nothing_and_wakes_nobody() {
    steady(async || {
        let server = RedisServer::start();
        let locks = connect(server.url()).await;
        let request = LockRequest::exclusive("k").expect("a key");
        let request = request.labelled("a b").expect("a label");
        let guard = locks.acquire(request).await.expect("the server runs");
        let guard = guard.expect("free");
        let value = || {
            server
                .client()
                .command(&["GET", "k"])
                .expect("it runs")
                .text()
        };
        let before = value();
        let seen = only_holder(&locks, "k").await;
        assert_eq!((seen.label.as_deref(), value()), (Some("a b"), before));
        let keys = server.client().command(&["DBSIZE"]).expect("it runs");
        assert_eq!(keys.integer(), Some(2), "the lock, and the counter");
        guard.release().await.expect("the server runs");
        assert_eq!(locks.inspect("k").await.unwrap().holders, []);
    });
}
