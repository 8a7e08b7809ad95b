//! Many holds and many waiters of one client.

use std::time::Duration;

use futures_util::future::{join_all, try_join_all};
use lock_core::{DistributedLock, LockGuard, LossReason, Mode, Wait};
use lock_testkit::servers::ZooKeeperServer;
use lock_testkit::{eventually, steady};
use lock_zookeeper::ZooKeeperLock;
use lock_zookeeper::zookeeper_client::{Acl, Acls, AuthId, Client, CreateMode, Permission};
use tokio::task::JoinSet;
use tokio::time::{Instant, sleep, timeout};

use crate::{PROMPT, admin, children, connect, request, take};

/// Far more holds than one renewal begins to watch.
const CROWD: usize = 60;

/// A ttl with a renewal every 1.5 s, a third of the 4.5 s that holds count on.
const TTL: Duration = Duration::from_secs(6);

/// Takes the keys `0`, `1` and so on at the same time.
async fn take_crowd(locks: &ZooKeeperLock) -> Vec<LockGuard> {
    let wanted = |number: usize| request(&number.to_string(), Mode::Exclusive).with_ttl(TTL);
    join_all((0..CROWD).map(|number| take(locks, wanted(number)))).await
}

/// Returns the nodes of all holds of a crowd.
async fn nodes(admin: &Client, chroot: &str) -> Vec<String> {
    let node = async |number: usize| {
        let lock = format!("{chroot}/{number}");
        let claims = children(admin, &lock).await;
        format!("{lock}/{}", claims[0])
    };
    join_all((0..CROWD).map(node)).await
}

#[test]
fn holds_are_kept_without_asking_for_each_of_them() {
    steady(async || {
        let server = ZooKeeperServer::start();
        let locks = connect(&server, "").await;
        let guards = take_crowd(&locks).await;
        let member = server.member(0);
        let received = || member.figure("zk_packets_received").unwrap();
        eventually(3 * PROMPT, "all of them are watched", || async {
            member.figure("zk_watch_count") == Some(CROWD as u64)
        })
        .await;
        let before = received();
        // Four renewals of many holds together, and heartbeats. Holds with different grants are due
        // at different times.
        sleep(TTL).await;
        let asked = received() - before;
        let one_by_one = 4 * CROWD as u64;
        assert!(asked < one_by_one / 2, "{asked} requests in four renewals");
        assert!(guards.iter().all(LockGuard::is_held));
    });
}

#[test]
fn nodes_that_go_before_they_are_watched_are_lost_at_the_next_renewal() {
    steady(async || {
        let server = ZooKeeperServer::shared();
        let locks = connect(server, "/removed-crowd").await;
        let guards = take_crowd(&locks).await;
        let admin = admin(server).await;
        let nodes = nodes(&admin, "/removed-crowd").await;
        try_join_all(nodes.iter().map(|node| admin.delete(node, None)))
            .await
            .unwrap();
        let lost = timeout(TTL, join_all(guards.iter().map(LockGuard::lost))).await;
        assert_eq!(lost, Ok(vec![LossReason::Removed; CROWD]));
    });
}

#[test]
fn nodes_that_nobody_may_read_are_held_until_they_go() {
    steady(async || {
        let server = ZooKeeperServer::shared();
        let locks = connect(server, "/unreadable").await;
        let guards = take_crowd(&locks).await;
        let admin = admin(server).await;
        let acl = [Acl::new(Permission::DELETE, AuthId::anyone())];
        let nodes = nodes(&admin, "/unreadable").await;
        try_join_all(nodes.iter().map(|node| admin.set_acl(node, &acl, None)))
            .await
            .unwrap();
        // Wait for several renewals, after which all nodes are watched.
        sleep(2 * TTL).await;
        assert!(guards.iter().all(LockGuard::is_held));
        // The server reports no deletion of a node that the user may not read.
        let (removed, replaced) = nodes.split_at(CROWD / 2);
        try_join_all(removed.iter().map(|node| admin.delete(node, None)))
            .await
            .unwrap();
        let options = CreateMode::Persistent.with_acls(Acls::anyone_all());
        let replacing = replaced.iter().map(|node| {
            let mut replacing = admin.new_multi_writer();
            replacing.add_delete(node, None).unwrap();
            replacing.add_create(node, &[], &options).unwrap();
            replacing.commit()
        });
        try_join_all(replacing).await.unwrap();
        let lost = timeout(TTL, join_all(guards.iter().map(LockGuard::lost))).await;
        assert_eq!(lost, Ok(vec![LossReason::Removed; CROWD]));
    });
}

/// Returns the number of waiters for one lock: `LOCK_CROWD` if set, else 300.
fn waiters() -> usize {
    let size = std::env::var("LOCK_CROWD").ok();
    size.map_or(300, |size| size.parse().expect("a number"))
}

/// Checks that a crowd behind a writer sends few requests and is granted the lock after the
/// release.
///
/// The writer must not lose its hold while the crowd waits, and no waiter its grant.
async fn crowd_behind_a_writer(mode: Mode, keep: Duration) {
    let server = ZooKeeperServer::start();
    let locks = connect(&server, "").await;
    let admin = admin(&server).await;
    let wanted = |mode| request("k", mode).with_ttl(Duration::from_secs(10));
    let writer = take(&locks, wanted(Mode::Exclusive)).await;
    let mut crowd = JoinSet::new();
    for _ in 0..waiters() {
        let (locks, wanted) = (locks.clone(), wanted(mode).with_wait(Wait::Forever));
        crowd.spawn(async move {
            let guard = locks.acquire(wanted).await;
            let guard = guard.expect("no error").expect("no end");
            assert!(guard.is_held(), "lost before it was told");
            guard.release().await
        });
    }
    eventually(Duration::from_secs(240), "all are in line", || async {
        children(&admin, "/k").await.len() == waiters() + 1
    })
    .await;
    let member = server.member(0);
    let received = || member.figure("zk_packets_received").expect("it runs");
    sleep(keep / 2).await;
    let before = received();
    sleep(keep / 2).await;
    let asked = received() - before;
    println!("{} waiters: {asked} requests in {:?}", waiters(), keep / 2);
    assert!(
        asked < 10 * keep.as_secs(),
        "{asked} requests while nothing changes"
    );
    assert!(writer.is_held(), "the crowd cost its holder the lock");
    writer.release().await.expect("the server runs");
    let begun = Instant::now();
    while let Some(served) = crowd.join_next().await {
        let released = served.expect("no panic");
        released.expect("the server runs");
    }
    println!("{} served in {:?}", waiters(), begun.elapsed());
}

#[test]
fn readers_behind_a_writer_cost_it_nothing_and_are_all_let_in() {
    steady(async || crowd_behind_a_writer(Mode::Shared, Duration::from_secs(12)).await);
}

#[test]
fn writers_behind_a_writer_cost_it_nothing_and_are_all_let_in() {
    steady(async || crowd_behind_a_writer(Mode::Exclusive, Duration::from_secs(12)).await);
}

#[test]
fn permits_behind_a_writer_cost_it_nothing_and_are_all_let_in() {
    let permit = Mode::permit(3).unwrap();
    steady(async || crowd_behind_a_writer(permit, Duration::from_secs(12)).await);
}
