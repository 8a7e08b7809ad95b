//! Claims of one client in a row: each claim sees the claims of other clients before it.

use std::time::Duration;

use futures_util::future::join;
use lock_core::backend::{Clock, Released};
use lock_core::{DistributedLock, ErrorKind, LockGuard, Mode, Wait};
use lock_testkit::servers::ZooKeeperServer;
use lock_testkit::{eventually, poll_times, steady};
use lock_zookeeper::ZooKeeperLock;
use lock_zookeeper::zookeeper_client::{Acls, CreateMode};

use crate::{PROMPT, admin, children, connect, request, take};

/// The number of claims in a row.
const RUN: usize = 30;

async fn take_key(locks: &ZooKeeperLock) -> LockGuard {
    let wanted = request("k", Mode::Exclusive).with_wait(Wait::within(PROMPT));
    let guard = locks.acquire(wanted).await.expect("the server runs");
    guard.expect("left by nobody")
}

/// Takes and releases the key `RUN` times.
async fn run(locks: &ZooKeeperLock) {
    for _ in 0..RUN {
        let released = take_key(locks).await.release().await;
        assert_eq!(released.expect("the server runs"), Released::Released);
    }
}

/// Returns true if the key stays held for a client that waits up to `limit`; zero is no wait.
async fn is_held(locks: &ZooKeeperLock, limit: Duration) -> bool {
    let started = Clock::Boot.now();
    loop {
        let wanted = request("k", Mode::Exclusive).waiting_at_most(limit);
        match locks.acquire(wanted).await {
            // A short wait may end before a busy server answers, which tells nothing about the key.
            Err(error)
                if error.kind() == ErrorKind::Unavailable
                    && Clock::Boot.now().since(started) < PROMPT => {}
            answer => return answer.expect("the server runs").is_none(),
        }
    }
}

#[test]
fn whoever_came_in_between_is_seen() {
    steady(async || {
        let server = ZooKeeperServer::start();
        let locks = connect(&server, "/between").await;
        let rival = connect(&server, "/between").await;
        let admin = admin(&server).await;
        for limit in [Duration::ZERO, Duration::from_millis(20)] {
            run(&locks).await;
            let theirs = take_key(&rival).await;
            lock_testkit::assert_excluded!(is_held(&locks, limit).await);
            theirs.release().await.unwrap();

            // Now the rival waits while this client holds the key.
            run(&locks).await;
            let ours = take_key(&locks).await;
            let token = ours.token();
            let releasing = async {
                eventually(PROMPT, "it waits", || async {
                    children(&admin, "/between/k").await.len() == 2
                })
                .await;
                ours.release().await.unwrap();
                lock_testkit::assert_excluded!(is_held(&locks, limit).await);
            };
            let (theirs, ()) = join(take_key(&rival), releasing).await;
            assert!(theirs.token() > token);
            let token = theirs.token();
            theirs.release().await.unwrap();
            assert!(take_key(&locks).await.token() > token);
        }
    });
}

#[test]
fn a_line_that_began_anew_is_looked_at() {
    steady(async || {
        let server = ZooKeeperServer::start();
        let locks = connect(&server, "/anew").await;
        let admin = admin(&server).await;
        let container = CreateMode::Container.with_acls(Acls::anyone_all());
        let claim = CreateMode::EphemeralSequential.with_acls(Acls::anyone_all());
        run(&locks).await;
        admin.delete("/anew/k", None).await.unwrap();
        admin.create("/anew/k", &[], &container).await.unwrap();
        // The new claims have the numbers of the run, and the client's next claim follows them. One
        // transaction creates them all.
        let mut anew = admin.new_multi_writer();
        for _ in 0..RUN {
            anew.add_create("/anew/k/x-lock-", &[], &claim).unwrap();
        }
        anew.commit().await.unwrap();
        lock_testkit::assert_excluded!(is_held(&locks, Duration::ZERO).await);
        let claims = children(&admin, "/anew/k").await;
        assert_eq!(claims.len(), RUN, "ours has left");
    });
}

#[test]
fn claims_that_never_held_the_key_have_nobody_right_behind() {
    steady(async || {
        let server = ZooKeeperServer::start();
        let locks = connect(&server, "/never").await;
        let rival = connect(&server, "/never").await;
        run(&locks).await;
        let theirs = take_key(&rival).await;
        for round in 0..RUN {
            let limit = Duration::from_millis(10);
            lock_testkit::assert_excluded!(is_held(&locks, limit).await, "in round {round}");
        }
        assert_eq!(theirs.release().await.unwrap(), Released::Released);
    });
}

#[test]
fn claims_that_are_given_up_at_any_moment_leave_nothing() {
    steady(async || {
        let server = ZooKeeperServer::start();
        let locks = connect(&server, "/given-up").await;
        let admin = admin(&server).await;
        for times in 1..=8 {
            run(&locks).await;
            for _ in 0..3 {
                let wanted = request("k", Mode::Exclusive).with_wait(Wait::within(PROMPT));
                drop(poll_times(locks.acquire(wanted), times, PROMPT).await);
                // Waits for the end of a claim that the dropped future may have left.
                let guard = take_key(&locks).await;
                lock_testkit::assert_excluded!(is_held(&locks, Duration::ZERO).await);
                guard.release().await.unwrap();
            }
            eventually(PROMPT, "nothing is left", || async {
                children(&admin, "/given-up/k").await.is_empty()
            })
            .await;
        }
    });
}

#[test]
fn a_key_that_others_hold_with_us_is_looked_at() {
    steady(async || {
        let server = ZooKeeperServer::start();
        let locks = connect(&server, "/shared").await;
        let rival = connect(&server, "/shared").await;
        let shared = take(&rival, request("k", Mode::Shared)).await;
        for _ in 0..RUN {
            let ours = take(&locks, request("k", Mode::Shared)).await;
            ours.release().await.unwrap();
        }
        let limit = Duration::from_millis(20);
        lock_testkit::assert_excluded!(
            is_held(&locks, limit).await,
            "held by readers and a writer"
        );
        assert!(shared.is_held());
    });
}
