//! Waiters that receive no push.

use std::time::Duration;

use lock_core::DistributedLockExt;
use lock_testkit::servers::RedisServer;
use lock_testkit::{eventually, steady};
use tokio::task::JoinSet;
use tokio::time::Instant;

use crate::connect;

/// The releases cover all moments between the refusal of a take and the time after the waiter
/// listens. No client changes the key afterwards, since a later push would make up for a lost one.
#[test]
fn a_release_just_before_a_waiter_listens_is_noticed() {
    steady(async || {
        const TASKS: usize = 10;
        let server = RedisServer::start();
        let clients = [connect(server.url()).await, connect(server.url()).await];
        let mut tasks = JoinSet::new();
        for task in 0..TASKS {
            let [ours, theirs] = clients.clone();
            tasks.spawn(async move {
                let mut slow = 0;
                for round in 0..30 {
                    let key = format!("{task}/{round}");
                    let guard = ours.lock(&key).await.unwrap();
                    let releasing = async {
                        // A client needs many turns of an idle runtime for each step.
                        for _ in 0..round * 5 {
                            tokio::task::yield_now().await;
                        }
                        guard.release().await.unwrap();
                    };
                    let begin = Instant::now();
                    let (next, _) = tokio::join!(theirs.lock(&key), releasing);
                    slow += usize::from(begin.elapsed() > Duration::from_millis(500));
                    next.unwrap().release().await.unwrap();
                }
                slow
            });
        }
        let slow: usize = tasks.join_all().await.iter().sum();
        // A busy machine may delay a few waiters.
        assert!(slow < 4, "{slow} of 300 waiters were not woken");
    });
}

/// Waits until the server tracks a key.
async fn somebody_listens(server: &RedisServer) {
    eventually(Duration::from_secs(5), "the waiter listens", || async {
        let info = server
            .client()
            .command(&["INFO", "stats"])
            .expect("the server runs")
            .text();
        info.is_some_and(|info| !info.contains("tracking_total_keys:0"))
    })
    .await;
}

/// The server pushes no changes to the connection that made them.
#[test]
fn a_waiter_of_the_same_client_is_woken() {
    steady(async || {
        const ROUNDS: usize = 10;
        let server = RedisServer::start();
        let locks = connect(server.url()).await;
        let mut slow = 0;
        for _ in 0..ROUNDS {
            let guard = locks.lock("k").await.unwrap();
            let releasing = async {
                somebody_listens(&server).await;
                guard.release().await.unwrap();
                Instant::now()
            };
            let waiting = async { (locks.lock("k").await.unwrap(), Instant::now()) };
            let (released, (guard, granted)) = tokio::join!(releasing, waiting);
            let took = granted.saturating_duration_since(released);
            slow += usize::from(took > Duration::from_millis(300));
            guard.release().await.unwrap();
        }
        assert!(slow < ROUNDS / 2, "{slow} of {ROUNDS} were not woken");
    });
}

/// The server pushes no changes of keys by `SWAPDB`.
#[test]
fn a_waiter_whom_nobody_wakes_looks_again() {
    steady(async || {
        let server = RedisServer::start();
        let locks = connect(server.url()).await;
        let mut admin = server.client();
        admin.command(&["SET", "k", "for ever"]).unwrap();
        let freeing = async {
            somebody_listens(&server).await;
            admin.command(&["SWAPDB", "0", "1"]).unwrap();
            Instant::now()
        };
        let limit = Duration::from_secs(20);
        let (guard, freed) = tokio::join!(locks.lock_within("k", limit), freeing);
        assert!(guard.unwrap().is_some());
        let took = freed.elapsed();
        assert!(took < Duration::from_secs(4), "{took:?} after it was free");
    });
}
