//! Requests of many tasks travel together, and each is answered as if it had been alone.

use std::collections::BTreeSet;

use futures_util::FutureExt;
use futures_util::future::join_all;
use lock_core::{FencingToken, KeeperPlace, LockGuard, Mode, Released};
use lock_testkit::servers::ZooKeeperServer;
use lock_testkit::{eventually, steady};
use lock_zookeeper::zookeeper_client::Client;
use lock_zookeeper::{ZooKeeperConfig, ZooKeeperLock};

use crate::{PROMPT, admin, children, connect, request, take};

/// Few enough to be polled together.
const CROWD: usize = 25;

/// Asks for the keys `0`, `1` and so on at the same time.
async fn take_crowd(locks: &ZooKeeperLock, count: usize) -> Vec<LockGuard> {
    let wanted = |number: usize| request(&number.to_string(), Mode::Exclusive);
    join_all((0..count).map(|number| take(locks, wanted(number)))).await
}

async fn release_crowd(guards: Vec<LockGuard>) -> Vec<Released> {
    let released = join_all(guards.into_iter().map(LockGuard::release)).await;
    let released = released
        .into_iter()
        .map(|released| released.expect("the server runs"));
    released.collect()
}

/// The claims on all of them.
async fn claims(admin: &Client, chroot: &str) -> Vec<String> {
    let nodes = (0..CROWD).map(|number| format!("{chroot}/{number}"));
    let claims = join_all(nodes.map(async |node| {
        let claims = children(admin, &node).await;
        let paths = claims.into_iter().map(|claim| format!("{node}/{claim}"));
        paths.collect::<Vec<_>>()
    }));
    claims.await.concat()
}

/// On one thread, so that the runtime has no turn while they are asked for.
#[tokio::test]
async fn what_is_asked_for_at_once_travels_together() {
    const MANY: usize = 200;
    let server = ZooKeeperServer::start();
    let locks = connect(&server, "").await;
    let member = server.member(0);
    // The nodes of the locks are made at first.
    release_crowd(take_crowd(&locks, MANY).await).await;
    for round in 0..3 {
        let before = member.figure("zk_packets_received").unwrap();
        let guards = take_crowd(&locks, MANY).await;
        let tokens: BTreeSet<FencingToken> = guards.iter().map(LockGuard::token).collect();
        assert_eq!(tokens.len(), MANY, "a token was given twice");
        let released = release_crowd(guards).await;
        assert_eq!(released, [Released::Released; MANY]);
        let asked = member.figure("zk_packets_received").unwrap() - before;
        // A request for each claim, and some more.
        assert!(
            asked < MANY as u64 * 3 / 2,
            "{asked} requests for {MANY} locks in round {round}"
        );
    }
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

/// With everything on one thread, so that nothing is sent before it is given up.
#[tokio::test]
async fn claims_that_are_given_up_before_they_are_sent_leave_nothing() {
    let server = ZooKeeperServer::start();
    let config = ZooKeeperConfig::new(server.address()).with_keeper(KeeperPlace::Caller);
    let locks = ZooKeeperLock::connect(config).await.unwrap();
    let admin = admin(&server).await;
    for round in 0..3 {
        release_crowd(take_crowd(&locks, CROWD).await).await;
        let taken = take_crowd(&locks, CROWD).now_or_never();
        assert!(taken.is_none(), "nothing can be answered yet");
        eventually(PROMPT, "nothing is left", || async {
            claims(&admin, "").await.is_empty()
        })
        .await;
        // And all is free, for whoever comes next.
        let guards = take_crowd(&locks, CROWD).await;
        assert_eq!(guards.len(), CROWD, "{round}");
        release_crowd(guards).await;
    }
}
