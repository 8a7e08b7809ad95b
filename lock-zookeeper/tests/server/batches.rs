//! Batches of requests: each request has the result that it would have alone.

use std::collections::BTreeSet;

use futures_util::FutureExt;
use futures_util::future::join_all;
use lock_core::backend::Released;
use lock_core::{DistributedLock, FencingToken, KeeperMode, LockGuard, Mode, Wait};
use lock_testkit::servers::ZooKeeperServer;
use lock_testkit::{eventually, poll_times, steady};
use lock_zookeeper::zookeeper_client::Client;
use lock_zookeeper::{ZooKeeperConfig, ZooKeeperLock};

use crate::{PROMPT, admin, children, connect, request};

/// Few enough to be polled together.
const CROWD: usize = 25;

/// Connects a client that sends on the test's thread, so nothing is sent before the test waits.
async fn connect_here(server: &ZooKeeperServer) -> ZooKeeperLock {
    let config = ZooKeeperConfig::new(server.address()).with_keeper(KeeperMode::Caller);
    let locks = ZooKeeperLock::connect(config).await;
    locks.expect("the server runs")
}

/// Takes the keys `0`, `1` and so on at the same time, and waits for keys that are still held.
async fn take_crowd(locks: &ZooKeeperLock, count: usize) -> Vec<LockGuard> {
    let asking = (0..count).map(async |number| {
        let wanted = request(&number.to_string(), Mode::Exclusive);
        let guard = locks.acquire(wanted.with_wait(Wait::within(PROMPT))).await;
        guard.expect("the server runs").expect("left by nobody")
    });
    join_all(asking).await
}

async fn release_crowd(guards: Vec<LockGuard>) -> Vec<Released> {
    let released = join_all(guards.into_iter().map(LockGuard::release)).await;
    let released = released
        .into_iter()
        .map(|released| released.expect("the server runs"));
    released.collect()
}

/// Returns the claims on the keys of a crowd.
async fn claims(admin: &Client, chroot: &str) -> Vec<String> {
    let nodes = (0..CROWD).map(|number| format!("{chroot}/{number}"));
    let claims = join_all(nodes.map(async |node| {
        let claims = children(admin, &node).await;
        let paths = claims.into_iter().map(|claim| format!("{node}/{claim}"));
        paths.collect::<Vec<_>>()
    }));
    claims.await.concat()
}

#[tokio::test]
async fn what_is_asked_for_at_once_travels_together() {
    const MANY: usize = 200;
    let server = ZooKeeperServer::start();
    let locks = connect_here(&server).await;
    let member = server.member(0);
    // Creates the nodes of the locks.
    release_crowd(take_crowd(&locks, MANY).await).await;
    let mut asked = Vec::new();
    for _ in 0..5 {
        let before = member.figure("zk_packets_received").unwrap();
        let guards = take_crowd(&locks, MANY).await;
        let tokens: BTreeSet<FencingToken> = guards.iter().map(LockGuard::token).collect();
        assert_eq!(tokens.len(), MANY, "a token was given twice");
        let released = release_crowd(guards).await;
        assert_eq!(released, [Released::Released; MANY]);
        asked.push(member.figure("zk_packets_received").unwrap() - before);
    }
    // Each claim takes a request, and batches add a few. On a slow machine lock nodes are removed
    // and created again, so the best round counts.
    let least = asked.iter().min().copied().unwrap_or_default();
    assert!(
        least < MANY as u64 * 3 / 2,
        "{asked:?} requests for {MANY} locks"
    );
}

#[test]
fn a_node_that_has_gone_keeps_no_other_one_that_is_removed_with_it() {
    steady(async || {
        let server = ZooKeeperServer::shared();
        let (locks, admin) = (connect(server, "/gone-in-batch").await, admin(server).await);
        let guards = take_crowd(&locks, CROWD).await;
        let nodes = claims(&admin, "/gone-in-batch").await;
        assert_eq!(nodes.len(), CROWD);
        let gone = [7, 11];
        for number in gone {
            admin.delete(&nodes[number], None).await.unwrap();
        }
        let released = release_crowd(guards).await;
        for (number, released) in released.into_iter().enumerate() {
            let expected = if gone.contains(&number) {
                Released::AlreadyLost
            } else {
                Released::Released
            };
            assert_eq!(released, expected, "{number}");
        }
        assert!(claims(&admin, "/gone-in-batch").await.is_empty());
    });
}

#[tokio::test]
async fn releases_that_are_given_up_before_they_are_sent_leave_nothing() {
    let server = ZooKeeperServer::start();
    let locks = connect_here(&server).await;
    for _ in 0..3 {
        let guards = take_crowd(&locks, CROWD).await;
        let released = release_crowd(guards).now_or_never();
        assert!(released.is_none(), "nothing can be answered yet");
        // This waits until the earlier claims are gone.
        release_crowd(take_crowd(&locks, CROWD).await).await;
    }
    assert!(claims(&admin(&server).await, "").await.is_empty());
}

#[tokio::test]
async fn claims_that_are_given_up_before_they_are_sent_leave_nothing() {
    let server = ZooKeeperServer::start();
    let locks = connect_here(&server).await;
    for _ in 0..3 {
        release_crowd(take_crowd(&locks, CROWD).await).await;
        let taken = take_crowd(&locks, CROWD).now_or_never();
        assert!(taken.is_none(), "nothing can be answered yet");
        // This waits until the earlier claims are gone.
        release_crowd(take_crowd(&locks, CROWD).await).await;
    }
    assert!(claims(&admin(&server).await, "").await.is_empty());
}

#[tokio::test]
async fn tries_that_are_given_up_at_any_moment_leave_nothing() {
    let server = ZooKeeperServer::start();
    let holder = connect_here(&server).await;
    let held = take_crowd(&holder, CROWD).await;
    for times in 1..=16 {
        // A new client, which has not been refused any key.
        let locks = connect_here(&server).await;
        let tries = (0..CROWD).map(|number| {
            let wanted = request(&number.to_string(), Mode::Exclusive);
            locks.acquire(wanted.with_wait(Wait::No))
        });
        poll_times(join_all(tries), times, PROMPT).await;
        eventually(PROMPT, "the holders are alone", || async {
            let claims = claims(&admin(&server).await, "").await;
            claims.len() == CROWD
        })
        .await;
    }
    release_crowd(held).await;
    release_crowd(take_crowd(&holder, CROWD).await).await;
}
