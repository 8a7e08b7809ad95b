//! The cost of a release with many waiters, and the order of grants.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use lock_core::{DistributedLock, DistributedLockExt, LockRequest};
use lock_testkit::servers::EtcdCluster;
use lock_testkit::{assert_excluded, steady};
use tokio::sync::mpsc;
use tokio::task::JoinSet;

use crate::{Beside, PROMPT, connect, keys, lock_for, queue_has};

/// Returns the number of requests that the first member has answered.
fn requests(cluster: &EtcdCluster) -> usize {
    cluster.first().figure("grpc_server_handled_total") as usize
}

#[test]
fn one_release_of_three_hundred_waits_costs_a_few_requests_and_keeps_the_order() {
    steady(async || {
        const WAITERS: usize = 300;
        const MEASURED: usize = 50;
        let cluster = EtcdCluster::start(1);
        let clients = [
            connect(cluster.url()).await,
            connect(cluster.url()).await,
            connect(cluster.url()).await,
        ];
        // A hold is watched from its first renewal on, which comes after the test with this ttl.
        let first = lock_for(&clients[0], "k", Duration::from_secs(3_600)).await;
        let in_line = || cluster.first().figure("etcd_mvcc_put_total") as usize;
        let (granted, mut order) = mpsc::unbounded_channel();
        let mut waiting = JoinSet::new();
        for number in 0..WAITERS {
            let (locks, granted) = (clients[number % 3].clone(), granted.clone());
            waiting.spawn(async move {
                let guard = locks.lock("k").await.unwrap();
                granted.send((number, guard)).unwrap();
            });
            let next = || async { in_line() == number + 2 };
            lock_testkit::eventually(PROMPT, "the next one in line", next).await;
        }
        let watched = || cluster.first().figure("etcd_debugging_mvcc_watcher_total") as usize;
        let all = || async { watched() == clients.len() };
        lock_testkit::eventually(PROMPT, "the first waiter of each client watches", all).await;
        let (mut before, mut costs, mut guard) = (requests(&cluster), Vec::new(), first);
        for expected in 0..WAITERS {
            guard.release().await.unwrap();
            let (number, next) = order.recv().await.unwrap();
            assert_eq!(number, expected, "out of order");
            guard = next;
            let now = requests(&cluster);
            costs.push(now - before);
            before = now;
            if costs.len() == MEASURED {
                costs.sort_unstable();
                // The release and a look. Waiters also look without an event, every 2 to 4 s.
                assert!(costs[MEASURED / 2] <= 6, "{costs:?}");
            }
        }
        guard.release().await.unwrap();
    });
}

#[test]
fn those_who_gave_up_or_were_cancelled_hold_nobody_up() {
    steady(async || {
        let cluster = EtcdCluster::start(1);
        let locks = connect(cluster.url()).await;
        let first = locks.lock("k").await.unwrap();
        let served = Arc::new(AtomicUsize::new(0));
        let mut tasks = Vec::new();
        for number in 0..40 {
            let (locks, served) = (locks.clone(), Arc::clone(&served));
            tasks.push(Beside::run(async move {
                let guard = locks.lock("k").await.unwrap();
                served.fetch_add(1, Ordering::SeqCst);
                guard.release().await.unwrap();
            }));
            queue_has(&cluster, "k", number + 2).await;
        }
        for task in tasks.iter_mut().step_by(2) {
            task.0.abort_all();
        }
        queue_has(&cluster, "k", 21).await;
        first.release().await.unwrap();
        let all = || async { served.load(Ordering::SeqCst) == 20 };
        lock_testkit::eventually(PROMPT, "the others are served", all).await;
        queue_has(&cluster, "k", 0).await;
    });
}

#[test]
fn a_waiter_keeps_its_place_for_longer_than_its_ttl() {
    steady(async || {
        const TTL: Duration = Duration::from_secs(2);
        let cluster = EtcdCluster::start(1);
        let (locks, other) = (connect(cluster.url()).await, connect(cluster.url()).await);
        let _held = locks.lock("k").await.unwrap();
        let request = LockRequest::exclusive("k").unwrap().with_ttl(TTL);
        let _waiting = Beside::run(async move { other.acquire(request).await });
        queue_has(&cluster, "k", 2).await;
        let places = keys(&cluster, "k/");
        tokio::time::sleep(TTL * 3).await;
        assert_eq!(keys(&cluster, "k/"), places);
    });
}

#[test]
fn a_refusal_writes_nothing() {
    steady(async || {
        let cluster = EtcdCluster::start(1);
        let locks = connect(cluster.url()).await;
        let _held = locks.lock("k").await.unwrap();
        let puts = || cluster.first().figure("etcd_mvcc_put_total");
        let before = puts();
        for _ in 0..10 {
            lock_testkit::assert_excluded!(locks.try_lock("k").await.unwrap().is_none());
            let request = LockRequest::shared("k")
                .unwrap()
                .waiting_at_most(Duration::ZERO);
            let refused = locks.acquire(request).await;
            lock_testkit::assert_excluded!(refused.unwrap().is_none());
        }
        assert_eq!(puts(), before);
    });
}

/// The keys of one transaction have the same create revision, and so the same token.
#[test]
fn a_set_of_free_keys_takes_one_transaction() {
    steady(async || {
        let cluster = EtcdCluster::start(1);
        let (locks, other) = (connect(cluster.url()).await, connect(cluster.url()).await);
        let names: Vec<String> = (0..64).map(|key| format!("k{key}")).collect();
        let set = locks.lock_all(&names).await.expect("the cluster runs");
        let first = set.token("k0").expect("it is in the set");
        let is_one = set.tokens().all(|(_, token)| token == first);
        assert!(is_one, "several transactions");
        for name in &names {
            assert!(other.try_lock(name).await.expect("it runs").is_none());
        }
        set.release().await.expect("the cluster runs");
        assert_eq!(keys(&cluster, "k"), [""; 0]);

        let held = other.lock_shared("k63").await.expect("the cluster runs");
        let refused = locks.try_lock_all(&names).await.expect("it runs");
        assert_excluded!(refused.is_none());
        held.release().await.expect("the cluster runs");
        assert_eq!(keys(&cluster, "k"), [""; 0]);
        // More keys than a transaction of the servers takes.
        let names: Vec<String> = (0..150).map(|key| format!("k{key}")).collect();
        let set = locks.lock_all(&names).await.expect("the cluster runs");
        assert_eq!(keys(&cluster, "k").len(), 150);
        drop(set);
    });
}
