//! Holders and waiters that are killed.

use std::time::Duration;

use lock_core::{DistributedLock, Mode, Wait};
use lock_testkit::processes::{Child, Role, granted_after_a_kill};
use lock_testkit::servers::ZooKeeperServer;
use lock_testkit::{eventually, steady};
use lock_zookeeper::zookeeper_client::Client;
use tokio::task::JoinSet;
use tokio::time::{Instant, timeout};

use crate::{PROMPT, TTL, connect, request};

/// Longer than what a ttl could be taken for.
const LOCK_DELAY: Duration = Duration::from_secs(4);

#[test]
fn a_killed_holder_blocks_for_its_ttl_and_no_longer() {
    steady(async || {
        let server = ZooKeeperServer::start();
        let locks = connect(server.address()).await;
        for mode in [Mode::Exclusive, Mode::Shared, Mode::permit(1).unwrap()] {
            let mut child = Child::start(server.address(), &request("k", mode), Role::Hold);
            let token = child.token();
            let mut waiting = Box::pin(locks.acquire(request("k", Mode::Exclusive)));
            let early = timeout(TTL * 3 / 2, &mut waiting).await;
            assert!(early.is_err(), "a living holder is renewed: {early:?}");
            child.kill();
            let killed = Instant::now();
            let next = timeout(3 * TTL, waiting).await;
            let next = next.expect("a killed holder is waited out").unwrap();
            let next = next.expect("no end");
            let took = killed.elapsed();
            assert!(took < TTL + Duration::from_secs(1), "{mode:?}: {took:?}");
            assert!(next.token().value() > token);
            next.release().await.unwrap();
        }
    });
}

#[test]
fn a_killed_holder_keeps_its_key_closed_for_its_lock_delay() {
    steady(async || {
        let server = ZooKeeperServer::start();
        let locks = connect(server.address()).await;
        for mode in [Mode::Exclusive, Mode::Shared, Mode::permit(1).unwrap()] {
            let request = request("k", mode).with_lock_delay(LOCK_DELAY);
            let took = granted_after_a_kill(&locks, server.address(), &request).await;
            assert!(took > TTL / 2 + LOCK_DELAY, "{mode:?}: open after {took:?}");
            let limit = TTL + LOCK_DELAY + Duration::from_secs(1);
            assert!(took < limit, "{mode:?}: closed for {took:?}");
        }
    });
}

#[test]
fn a_killed_waiter_in_the_middle_delays_nobody() {
    steady(async || {
        let server = ZooKeeperServer::start();
        let locks = connect(server.address()).await;
        let admin = Client::connect(&server.address()).await.unwrap();
        let has = async |count: usize| {
            eventually(3 * PROMPT, "the next one in line", || async {
                admin.list_children("/k").await.unwrap().len() == count
            })
            .await;
        };
        let wanted = || request("k", Mode::Exclusive);
        let now = wanted().with_wait(Wait::No);
        let first = locks.acquire(now).await.unwrap().expect("free");
        let mut doomed = Child::start(server.address(), &wanted(), Role::Hold);
        has(2).await;
        let mut last = JoinSet::new();
        let waiter = locks.clone();
        last.spawn(async move { waiter.acquire(wanted()).await });
        has(3).await;
        doomed.kill();
        // Its session ends while the first one holds the lock, so no process has waited for it.
        has(2).await;
        first.release().await.unwrap();
        let released = Instant::now();
        let served = timeout(PROMPT, last.join_next()).await;
        let guard = served.expect("served").unwrap().unwrap().unwrap();
        let took = released.elapsed();
        assert!(took < Duration::from_secs(1), "{took:?}");
        guard.expect("no end").release().await.unwrap();
    });
}
