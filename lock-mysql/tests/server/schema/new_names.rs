//! Keys that were never locked: many clients create their rows at once.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use futures_util::future::join;
use lock_core::{DistributedLock, LockGuard, LockRequest};
use lock_testkit::servers::{SqlServer, SqlVendor};
use lock_testkit::{assert_excluded, steady};
use tokio::sync::Barrier;
use tokio::task::JoinSet;
use tokio::time::Instant;

use crate::{BOTH, LONG, PROMPT, connect, exclusive, take};

const CLIENTS: usize = 64;

/// Lets all clients race for each name, and returns the number of grants.
async fn race(server: &SqlServer, hold: lock_mysql::MySqlHold, names: usize) -> usize {
    let (won, barrier) = (
        Arc::new(AtomicUsize::new(0)),
        Arc::new(Barrier::new(CLIENTS)),
    );
    let mut racing = JoinSet::new();
    for _ in 0..CLIENTS {
        let locks = connect(server, hold).await;
        let (won, barrier) = (Arc::clone(&won), Arc::clone(&barrier));
        racing.spawn(async move {
            for number in 0..names {
                barrier.wait().await;
                let request = exclusive(&format!("{hold:?} {number}"), LONG);
                let answer = locks.acquire(request).await;
                let guard = answer.unwrap_or_else(|error| panic!("{hold:?} {number}: {error}"));
                won.fetch_add(usize::from(guard.is_some()), Ordering::Relaxed);
                // No client releases its lock before all have asked.
                barrier.wait().await;
                drop(guard);
            }
        });
    }
    while let Some(raced) = racing.join_next().await {
        raced.expect("no error reaches a caller");
    }
    won.load(Ordering::Relaxed)
}

#[test]
fn new_names_have_one_holder_each_and_delay_no_other() {
    steady(async || {
        const NAMES: usize = 30;
        let room = ["--max-connections=1000"];
        let server = SqlServer::start_with(SqlVendor::MariaDb, &room);
        for hold in BOTH {
            let other = connect(&server, hold).await;
            let racing = race(&server, hold, NAMES);
            tokio::pin!(racing);
            let mut slowest = Duration::ZERO;
            let won = loop {
                let begun = Instant::now();
                tokio::select! {
                    won = &mut racing => break won,
                    guard = take(&other, "unrelated", LONG) => {
                        slowest = slowest.max(begun.elapsed());
                        guard.release().await.expect("it runs");
                    }
                }
            };
            assert_eq!(won, NAMES, "{hold:?}");
            assert!(slowest < PROMPT / 5, "{hold:?}: {slowest:?}");
        }
    });
}

/// Lets the tries of two clients meet while they create the row.
///
/// A third of the ttl, the limit of an answer, is shorter than the server's limit for row waits.
async fn meet(server: &SqlServer, hold: lock_mysql::MySqlHold, shared: bool) {
    const NAMES: usize = 40;
    let clients = [connect(server, hold).await, connect(server, hold).await];
    for number in 0..NAMES {
        let key = format!("{hold:?} {shared} {number}");
        let request = if shared {
            LockRequest::shared(&key)
        } else {
            LockRequest::exclusive(&key)
        };
        let request = request.expect("a key");
        let request = request
            .with_ttl(Duration::from_millis(2900))
            .without_waiting();
        let (one, other) = join(
            clients[0].acquire(request.clone()),
            clients[1].acquire(request),
        )
        .await;
        let guards: Vec<LockGuard> = [one, other]
            .into_iter()
            .filter_map(|tried| tried.expect("no error reaches a caller"))
            .collect();
        if shared {
            assert_eq!(guards.len(), 2, "{key}: readers share");
        } else {
            assert_excluded!(guards.len() == 1, "{key}: {}", guards.len());
        }
    }
}

#[test]
fn tries_that_meet_on_a_new_name_are_told_the_truth() {
    steady(async || {
        for vendor in SqlVendor::available() {
            let server = SqlServer::start(vendor);
            for hold in BOTH {
                meet(&server, hold, false).await;
                meet(&server, hold, true).await;
            }
        }
    });
}
