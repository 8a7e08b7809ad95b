//! Many waiters in one queue: they are served in order, and a release wakes one waiter.

use std::time::Duration;

use futures_util::future::try_join_all;
use lock_core::{DistributedLock, DistributedLockExt, Mode, Wait};
use lock_testkit::servers::ZooKeeperServer;
use lock_testkit::{eventually, steady};
use lock_zookeeper::ZooKeeperLock;
use lock_zookeeper::zookeeper_client::{Acls, CreateMode};
use tokio::sync::mpsc;
use tokio::task::JoinSet;
use tokio::time::{Instant, timeout};

use crate::{PROMPT, admin, children, connect, request, take};

const CROWD: usize = 300;
const TTL: Duration = Duration::from_secs(60);

/// The longest time that a waiter relies on its watch before it looks at the queue.
const TRUST: Duration = Duration::from_secs(10);

#[test]
fn one_release_of_three_hundred_waits_costs_a_few_requests_and_keeps_the_order() {
    steady(async || {
        let server = ZooKeeperServer::start();
        let clients: [ZooKeeperLock; 3] = [
            connect(&server, "/herd").await,
            connect(&server, "/herd").await,
            connect(&server, "/herd").await,
        ];
        let admin = admin(&server).await;
        let wanted = || request("k", Mode::Exclusive).with_ttl(TTL);
        let first = take(&clients[0], wanted()).await;
        let (granted, mut order) = mpsc::unbounded_channel();
        let mut crowd = JoinSet::new();
        for number in 0..CROWD {
            let (locks, granted) = (clients[number % 3].clone(), granted.clone());
            let request = wanted().with_wait(Wait::Forever);
            crowd.spawn(async move {
                let guard = locks.acquire(request).await.unwrap().unwrap();
                granted.send((number, guard)).unwrap();
            });
            eventually(PROMPT, "the next one in line", || async {
                children(&admin, "/herd/k").await.len() == number + 2
            })
            .await;
        }
        let member = server.member(0);
        eventually(PROMPT, "a watch for each of them", || async {
            member.figure("zk_watch_count") == Some(CROWD as u64)
        })
        .await;
        let received = || member.figure("zk_packets_received").unwrap();
        let (mut before, mut requests) = (received(), Vec::new());
        let begin = Instant::now();
        let mut guard = first;
        for expected in 0..CROWD {
            guard.release().await.unwrap();
            let (number, next) = order.recv().await.unwrap();
            assert_eq!(number, expected, "out of order");
            guard = next;
            let now = received();
            requests.push(now - before);
            before = now;
        }
        // The release, a look at the queue through the leader, and the request of this test. Added
        // to them are pings, and looks of two requests by waiters that no longer rely on their
        // watches.
        let looks = 2 * (begin.elapsed().as_secs() / TRUST.as_secs() + 1);
        requests.sort_unstable();
        assert!(requests[CROWD / 2] <= 5 + looks, "{requests:?}");
        assert!(
            requests.iter().sum::<u64>() <= (8 + looks) * CROWD as u64,
            "{requests:?}"
        );
        guard.release().await.unwrap();
    });
}

#[test]
fn a_waiter_that_goes_in_the_middle_delays_nobody() {
    steady(async || {
        let server = ZooKeeperServer::shared();
        let locks = connect(server, "/middle").await;
        let guard = locks.lock("k").await.unwrap();
        let admin = admin(server).await;
        let mut waiting = Vec::new();
        for number in 2..=4 {
            let locks = locks.clone();
            waiting.push(JoinSet::new());
            let waiter = waiting.last_mut().unwrap();
            waiter.spawn(async move { locks.lock("k").await });
            eventually(PROMPT, "one more in line", || async {
                children(&admin, "/middle/k").await.len() == number
            })
            .await;
        }
        waiting.remove(1).shutdown().await;
        eventually(PROMPT, "the middle one has left", || async {
            children(&admin, "/middle/k").await.len() == 3
        })
        .await;
        guard.release().await.unwrap();
        for mut waiter in waiting {
            let served = timeout(PROMPT / 5, waiter.join_next()).await;
            let guard = served.expect("served at once").unwrap().unwrap();
            guard.unwrap().release().await.unwrap();
        }
    });
}

#[test]
fn permits_go_on_one_by_one_without_looking_at_a_clock() {
    steady(async || {
        let server = ZooKeeperServer::shared();
        let locks = connect(server, "/permits").await;
        let admin = admin(server).await;
        let wanted = || request("k", Mode::permit(2).unwrap()).with_ttl(TTL);
        let mut held = vec![take(&locks, wanted()).await, take(&locks, wanted()).await];
        let (granted, mut order) = mpsc::unbounded_channel();
        let mut waiters = JoinSet::new();
        for number in 0..20 {
            let (locks, granted) = (locks.clone(), granted.clone());
            let request = wanted().with_wait(Wait::Forever);
            waiters.spawn(async move {
                let guard = locks.acquire(request).await.unwrap().unwrap();
                granted.send((number, guard)).unwrap();
            });
            eventually(PROMPT, "the next one in line", || async {
                children(&admin, "/permits/k").await.len() == number + 3
            })
            .await;
        }
        for expected in 0..20 {
            held.remove(0).release().await.unwrap();
            let next = timeout(PROMPT / 4, order.recv()).await;
            let (number, guard) = next.expect("woken by the release").unwrap();
            assert_eq!(number, expected, "out of order");
            held.push(guard);
        }
        for guard in held {
            guard.release().await.unwrap();
        }
    });
}

#[test]
fn a_waiter_whom_nobody_wakes_looks_again() {
    steady(async || {
        let server = ZooKeeperServer::shared();
        let locks = connect(server, "/silent").await;
        let admin = admin(server).await;
        let wanted = || request("k", Mode::permit(2).unwrap()).with_ttl(Duration::from_secs(4));
        let held = [take(&locks, wanted()).await, take(&locks, wanted()).await];
        // The client of this claim never changes its node when it becomes a holder, so it wakes no
        // waiter.
        let silent = "/silent/k/_c_0f0e0d0c-0b0a-0908-0706-050403020100-permit-2-lock-";
        let ephemeral = CreateMode::EphemeralSequential.with_acls(Acls::anyone_all());
        admin.create(silent, &[], &ephemeral).await.unwrap();
        let mut waiting = JoinSet::new();
        let last = locks.clone();
        waiting.spawn(async move { last.acquire(wanted().with_wait(Wait::Forever)).await });
        eventually(PROMPT, "the last one is in line", || async {
            children(&admin, "/silent/k").await.len() == 4
        })
        .await;
        for guard in held {
            guard.release().await.unwrap();
        }
        let served = timeout(PROMPT, waiting.join_next()).await;
        let guard = served.expect("it looked again").unwrap().unwrap().unwrap();
        guard.expect("no end").release().await.unwrap();
    });
}

#[test]
fn a_line_of_more_than_a_megabyte_is_read() {
    /// The names of Curator and this library take 60 bytes each in a list of that length.
    const LINE: usize = 20_000;
    const AT_ONCE: usize = 1_000;
    steady(async || {
        let server = ZooKeeperServer::start();
        let locks = connect(&server, "/long").await;
        let crowd = admin(&server).await;
        let container = CreateMode::Container.with_acls(Acls::anyone_all());
        crowd.mkdir("/long/k", &container).await.unwrap();
        let claim = "/long/k/_c_0f0e0d0c-0b0a-0908-0706-050403020100-lock-";
        let ephemeral = CreateMode::EphemeralSequential.with_acls(Acls::anyone_all());
        for _ in 0..LINE / AT_ONCE {
            let created = (0..AT_ONCE).map(|_| crowd.create(claim, &[], &ephemeral));
            try_join_all(created).await.unwrap();
        }
        let tried = locks.try_lock("k").await.unwrap();
        lock_testkit::assert_excluded!(tried.is_none());
        let mut waiting = Box::pin(locks.lock("k"));
        let early = timeout(Duration::from_secs(1), &mut waiting).await;
        lock_testkit::assert_excluded!(early.is_err(), "{early:?}");
        // The server removes the claims with the session.
        drop(crowd);
        let guard = timeout(PROMPT, waiting).await.expect("served").unwrap();
        guard.release().await.unwrap();
    });
}
