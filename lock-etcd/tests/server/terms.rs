//! Leases that end with the term of their leader, and claims that move to a new lease.

use std::time::Duration;

use lock_core::{DistributedLock, LockRequest, LossReason};
use lock_testkit::servers::EtcdCluster;
use lock_testkit::{eventually, steady};
use tokio::task::JoinSet;
use tokio::time::{Instant, timeout};

use crate::{PROMPT, connect, fill, keys, leases, lock_for, queue_has};

const TTL: Duration = Duration::from_secs(4);

/// Returns the only lease.
fn lease(cluster: &EtcdCluster) -> String {
    match leases(cluster).as_slice() {
        [lease] => lease.clone(),
        others => panic!("{} leases instead of one", others.len()),
    }
}

#[test]
fn holds_move_to_another_lease_with_the_next_leader() {
    steady(async || {
        let cluster = EtcdCluster::start(1);
        let locks = connect(cluster.url()).await;
        let mut guards = Vec::new();
        // More holds than one transaction moves.
        for number in 0..150 {
            guards.push(lock_for(&locks, &format!("many/{number}"), TTL).await);
        }
        let former = lease(&cluster);
        // The only member becomes leader again, in a new term.
        cluster.first().restart();
        let moved = || async { matches!(leases(&cluster).as_slice(), [lease] if *lease != former) };
        eventually(PROMPT, "all stand under another lease", moved).await;
        assert!(guards.iter().all(|guard| guard.is_held()));
        assert_eq!(keys(&cluster, "many/").len(), 150);
        guards.push(lock_for(&locks, "later", TTL).await);
        tokio::time::sleep(TTL * 3 / 2).await;
        assert!(guards.iter().all(|guard| guard.is_held()));
        assert_eq!(leases(&cluster).len(), 1, "later ones share it");
    });
}

#[test]
fn waiters_keep_their_places_when_they_move_with_the_next_leader() {
    steady(async || {
        let cluster = EtcdCluster::start(1);
        let locks = connect(cluster.url()).await;
        let guard = lock_for(&locks, "k", TTL).await;
        let mut waiting = JoinSet::new();
        for number in 0..3 {
            let locks = locks.clone();
            waiting.spawn(async move {
                let request = LockRequest::exclusive("k").unwrap().with_ttl(TTL);
                let guard = locks.acquire(request).await.unwrap().expect("it waits");
                guard.release().await.unwrap();
                number
            });
            queue_has(&cluster, "k", 2 + number).await;
        }
        let former = lease(&cluster);
        cluster.first().restart();
        let given_up = || async { !leases(&cluster).contains(&former) };
        eventually(PROMPT, "all stand under another lease", given_up).await;
        tokio::time::sleep(TTL * 3 / 2).await;
        guard.release().await.expect("it is held");
        let mut served = Vec::new();
        while let Some(number) = timeout(PROMPT, waiting.join_next())
            .await
            .expect("all are served")
        {
            served.push(number.unwrap());
        }
        assert_eq!(served, [0, 1, 2], "nobody has lost a place");
    });
}

#[test]
fn a_lease_that_nobody_uses_does_not_move() {
    steady(async || {
        let cluster = EtcdCluster::start(1);
        let locks = connect(cluster.url()).await;
        lock_for(&locks, "k", TTL * 10)
            .await
            .release()
            .await
            .unwrap();
        assert_eq!(leases(&cluster).len(), 1);
        cluster.first().restart();
        let none = || async { leases(&cluster).is_empty() };
        eventually(TTL * 5, "it is given up", none).await;
        assert!(lock_for(&locks, "k", TTL).await.is_held());
    });
}

/// A leader that stood still ends leases although its successor has kept them alive.
///
/// It ends no lease before the expiry that it knows, so only its own keep-alives count.
#[test]
fn what_a_later_leader_keeps_alive_does_not_count() {
    steady(async || {
        // A server without space keeps leases alive, but grants none.
        let cluster = EtcdCluster::start_with(1, &["--quota-backend-bytes", "200000"]);
        let locks = connect(cluster.url()).await;
        let guard = lock_for(&locks, "k", TTL).await;
        fill(&cluster).await;
        tokio::time::sleep(TTL).await;
        assert!(guard.is_held(), "it is kept alive without room");
        let begun = Instant::now();
        cluster.first().restart();
        let reason = timeout(TTL, guard.lost()).await.expect("it is told");
        assert_eq!(reason, LossReason::Expired);
        assert!(begun.elapsed() < TTL, "told after {:?}", begun.elapsed());
    });
}

/// A claim that was sent before the other claims moved may be under the lease that they have left.
#[test]
fn a_claim_under_another_lease_follows_before_it_is_granted() {
    steady(async || {
        let cluster = EtcdCluster::start(1);
        let (locks, other) = (connect(cluster.url()).await, connect(cluster.url()).await);
        let guard = lock_for(&other, "k", TTL).await;
        let before = keys(&cluster, "k/");
        let mut waiting = JoinSet::new();
        let request = LockRequest::exclusive("k").unwrap().with_ttl(TTL);
        waiting.spawn(async move { locks.acquire(request).await.unwrap() });
        queue_has(&cluster, "k", 2).await;
        let mut claims = keys(&cluster, "k/");
        claims.retain(|claim| !before.contains(claim));
        let granted = cluster.control(&["lease", "grant", "60"]);
        let elsewhere = granted.split_whitespace().nth(1).expect("its id");
        cluster.control(&["put", &claims[0], "", "--lease", elsewhere]);
        guard.release().await.unwrap();
        let granted = timeout(PROMPT, waiting.join_next()).await;
        let next = granted.expect("its turn").expect("one waits").unwrap();
        let next = next.expect("it waits as long as it takes");
        cluster.control(&["lease", "revoke", elsewhere]);
        assert_eq!(keys(&cluster, "k/"), claims, "it goes with its own lease");
        let lost = timeout(TTL, next.lost()).await;
        assert!(lost.is_err(), "{lost:?}");
    });
}
