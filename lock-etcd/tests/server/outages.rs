//! Servers that go away and come back.

use std::future::poll_fn;
use std::pin::pin;
use std::time::Duration;

use lock_core::{DistributedLock, DistributedLockExt, ErrorKind, LockRequest, LossReason};
use lock_etcd::{EtcdConfig, EtcdLock};
use lock_testkit::servers::EtcdCluster;
use lock_testkit::{eventually, steady};
use tokio::task::JoinSet;
use tokio::time::{Instant, timeout};

use crate::{PROMPT, connect, fill, keys, lock_for, queue_has};

const TTL: Duration = Duration::from_secs(3);

#[test]
fn servers_that_are_not_there_are_unavailable() {
    steady(async || {
        let cluster = EtcdCluster::start(1);
        let url = cluster.url();
        let locks = connect(url.clone()).await;
        cluster.first().kill();
        let begun = Instant::now();
        let error = EtcdLock::connect(EtcdConfig::new(url)).await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Unavailable, "{error}");
        let error = locks.try_lock("k").await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Unavailable, "{error}");
        assert!(begun.elapsed() < PROMPT, "after {:?}", begun.elapsed());
    });
}

#[test]
fn waiters_ride_out_a_restart_and_all_are_served() {
    steady(async || {
        let cluster = EtcdCluster::start(1);
        let clients = [connect(cluster.url()).await, connect(cluster.url()).await];
        let guard = lock_for(&clients[0], "k", Duration::from_secs(20)).await;
        let mut waiting = JoinSet::new();
        for number in 0..20 {
            let locks = clients[number % 2].clone();
            waiting.spawn(async move {
                let guard = locks.lock("k").await.unwrap();
                assert!(guard.is_held());
                guard.release().await.unwrap();
            });
        }
        queue_has(&cluster, "k", 21).await;
        cluster.first().restart();
        assert!(guard.is_held(), "a restart loses no hold");
        let watches = || cluster.first().figure("etcd_debugging_mvcc_watcher_total");
        // The first waiter of each client watches for all its waiters.
        let watched = || async { watches() >= 2.0 };
        eventually(PROMPT, "both watch again", watched).await;
        guard.release().await.unwrap();
        let all = async { while waiting.join_next().await.is_some_and(|task| task.is_ok()) {} };
        timeout(PROMPT * 3, all).await.expect("all are served");
        assert!(waiting.is_empty(), "a waiter has failed");
        queue_has(&cluster, "k", 0).await;
    });
}

/// A waiter that learns that no server answers waits for the next news, without a busy loop.
#[test]
fn a_waiter_is_not_busy_while_no_server_answers() {
    steady(async || {
        let cluster = EtcdCluster::start(1);
        let locks = connect(cluster.url()).await;
        let _guard = lock_for(&locks, "k", Duration::from_secs(30)).await;
        let mut waiting = pin!(locks.lock("k"));
        let mut polls = 0;
        let mut counted = poll_fn(|context| {
            polls += 1;
            waiting.as_mut().poll(context)
        });
        timeout(Duration::from_secs(1), &mut counted)
            .await
            .expect_err("the key is held");
        cluster.first().kill();
        // The waiter looks without an event after four seconds at most, and then again and again.
        timeout(Duration::from_secs(8), &mut counted)
            .await
            .expect_err("no server answers");
        assert!(polls < 500, "{polls} polls");
    });
}

/// Leases do not expire without a leader. A hold whose loss was reported must not block other
/// clients afterwards.
#[test]
fn what_was_lost_while_nobody_led_is_given_back_although_its_guard_lives() {
    steady(async || {
        let cluster = EtcdCluster::start(3);
        let locks = connect(cluster.url()).await;
        let guard = lock_for(&locks, "k", TTL).await;
        let begun = Instant::now();
        for member in &cluster.members()[..2] {
            member.freeze();
        }
        let reason = timeout(TTL * 2, guard.lost()).await.expect("it is told");
        assert_eq!(reason, LossReason::Expired);
        assert!(begun.elapsed() <= TTL, "told after {:?}", begun.elapsed());
        tokio::time::sleep(TTL).await;
        for member in &cluster.members()[..2] {
            member.thaw();
        }
        let next = timeout(TTL * 3 + PROMPT, locks.lock("k")).await;
        assert!(next.expect("it is given back").unwrap().is_held());
        assert!(!guard.is_held());
    });
}

#[test]
fn a_member_that_stands_still_costs_a_request_and_no_hold() {
    steady(async || {
        let cluster = EtcdCluster::start(3);
        let locks = connect(cluster.url()).await;
        let guard = lock_for(&locks, "held", TTL).await;
        // Clients try this member first, leader or not.
        cluster.first().freeze();
        let next = timeout(PROMPT, locks.lock("k"))
            .await
            .expect("another one answers");
        assert!(next.unwrap().is_held());
        tokio::time::sleep(TTL * 2).await;
        assert!(guard.is_held());
        cluster.first().thaw();
    });
}

/// A request that a frozen member received takes effect after the client has given it up.
#[test]
fn what_arrives_after_it_was_given_up_is_removed() {
    steady(async || {
        let cluster = EtcdCluster::start(3);
        let locks = connect(cluster.url()).await;
        let _held = lock_for(&locks, "other", TTL).await;
        for _ in 0..3 {
            cluster.first().freeze();
            let taken = timeout(PROMPT, locks.lock("k"))
                .await
                .expect("another one answers");
            taken.unwrap().release().await.unwrap();
            cluster.first().thaw();
        }
        let gone = || async { keys(&cluster, "k/").is_empty() };
        eventually(PROMPT, "nothing is left", gone).await;
        tokio::time::sleep(TTL).await;
        assert!(locks.try_lock("k").await.unwrap().is_some());
    });
}

#[test]
fn servers_that_are_full_refuse_with_advice_and_take_releases() {
    steady(async || {
        let cluster = EtcdCluster::start_with(1, &["--quota-backend-bytes", "200000"]);
        let locks = connect(cluster.url()).await;
        let guard = lock_for(&locks, "k", TTL).await;
        fill(&cluster).await;
        let request = LockRequest::exclusive("new").unwrap().without_waiting();
        let error = locks.acquire(request).await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Unavailable, "{error}");
        assert!(error.to_string().contains("quota"), "{error}");
        assert!(error.server().is_some(), "{error}");
        tokio::time::sleep(TTL).await;
        assert!(guard.is_held(), "renewals need no room");
        guard.release().await.unwrap();
        assert!(keys(&cluster, "k/").is_empty());
    });
}

#[test]
fn a_wait_without_end_rides_an_outage_out_for_half_a_minute_and_not_for_its_ttl() {
    steady(async || {
        let cluster = EtcdCluster::start(1);
        let (locks, other) = (connect(cluster.url()).await, connect(cluster.url()).await);
        let ttl = Duration::from_secs(600);
        let _held = lock_for(&other, "k", ttl).await;
        let request = LockRequest::exclusive("k").unwrap().with_ttl(ttl);
        let mut waiting = Box::pin(locks.acquire(request));
        tokio::select! {
            early = &mut waiting => panic!("{early:?}"),
            () = queue_has(&cluster, "k", 2) => {}
        }
        cluster.first().kill();
        let outcome = timeout(Duration::from_secs(60), waiting).await;
        let error = outcome.expect("the store has been gone for a minute");
        assert_eq!(error.unwrap_err().kind(), ErrorKind::Unavailable);
    });
}
