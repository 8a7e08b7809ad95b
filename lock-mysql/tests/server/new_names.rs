//! Keys that nobody has ever locked: their rows have to be made, by many at once.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use lock_core::DistributedLock;
use lock_testkit::servers::{SqlServer, SqlVendor};
use lock_testkit::steady;
use tokio::sync::Barrier;
use tokio::task::JoinSet;
use tokio::time::Instant;

use crate::{BOTH, LONG, PROMPT, connect, exclusive, take};

const CLIENTS: usize = 64;

/// Races for each name and keeps what it wins; how many names were won.
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
                // Nobody gives it back before all have asked.
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
