//! Limits of requests and holds while a frozen server answers late.

use std::time::Duration;

use lock_core::{DistributedLockExt, ErrorKind};
use lock_testkit::servers::RedisServer;
use lock_testkit::{eventually, steady};
use tokio::time::{Instant, sleep};

use crate::{connect, lock_for};

/// The time from a grant to the first renewal.
const FIRST_RENEWAL: Duration = Duration::from_millis(250);

async fn thaw_after(server: &RedisServer, delay: Duration) {
    sleep(delay).await;
    server.thaw();
}

#[test]
fn a_grant_counts_from_when_its_request_was_sent() {
    steady(async || {
        let server = RedisServer::start();
        let locks = connect(server.url()).await;
        let (ttl, delay) = (Duration::from_secs(10), Duration::from_millis(400));
        server.freeze();
        let (guard, ()) = tokio::join!(lock_for(&locks, "k", ttl), thaw_after(&server, delay));
        let left = guard.remaining();
        assert!(left <= ttl - delay, "{left:?} of {ttl:?} remain");
    });
}

#[test]
fn a_renewal_counts_from_when_it_was_sent() {
    steady(async || {
        let server = RedisServer::start();
        let locks = connect(server.url()).await;
        let (ttl, delay) = (Duration::from_secs(6), Duration::from_millis(750));
        let guard = lock_for(&locks, "k", ttl).await;
        let valid_until = Instant::now() + guard.remaining();
        server.freeze();
        thaw_after(&server, FIRST_RENEWAL + delay).await;
        let moved = Duration::from_millis(5);
        let renewed = || async { Instant::now() + guard.remaining() > valid_until + moved };
        eventually(Duration::from_secs(5), "the hold is renewed", renewed).await;
        // A busy machine may send the renewal late, by up to half of the delay.
        let left = guard.remaining();
        assert!(left <= ttl - delay / 2, "{left:?} of {ttl:?} remain");
    });
}

#[test]
fn a_wait_ends_in_time_while_it_has_to_connect() {
    steady(async || {
        let server = RedisServer::start();
        let locks = connect(server.url()).await;
        let kill = ["CLIENT", "KILL", "TYPE", "normal", "SKIPME", "yes"];
        server.client().command(&kill).unwrap();
        server.freeze();
        let begin = Instant::now();
        let wait = Duration::from_millis(300);
        let error = locks.lock_within("k", wait).await.unwrap_err();
        let took = begin.elapsed();
        assert_eq!(error.kind(), ErrorKind::Unavailable, "{error}");
        assert!(took < wait + Duration::from_secs(1), "{took:?} of {wait:?}");
        server.thaw();
    });
}

#[test]
fn an_answer_may_take_longer_than_the_driver_likes() {
    steady(async || {
        let server = RedisServer::start();
        let locks = connect(server.url()).await;
        let delay = Duration::from_millis(650);
        let mut admin = server.client();
        let mut connections = || {
            let info = admin.command(&["INFO", "stats"]).unwrap().text();
            let line = info.and_then(|info| info.lines().nth(1).map(str::to_owned));
            line.expect("connections received come first")
        };
        let before = connections();
        server.freeze();
        let (guard, ()) = tokio::join!(locks.try_lock("k"), thaw_after(&server, delay));
        assert!(guard.unwrap().is_some_and(|guard| guard.is_held()));
        // The connection has to stay open, since a clean-up of the take would have to use it.
        assert_eq!(connections(), before, "the connection was given up");
    });
}
