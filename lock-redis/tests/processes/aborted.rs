//! Tasks that are aborted at any moment.

use std::time::Duration;

use lock_core::{DistributedLock, LockRequest};
use lock_testkit::servers::RedisServer;
use lock_testkit::{eventually, steady};
use tokio::task::JoinSet;
use tokio::time::Instant;

use crate::{connect, is_empty};

/// The time by which each round is longer than the one before.
const MOMENT: Duration = Duration::from_micros(50);

/// The time in which the releases of aborted tasks are answered.
const PROMPT: Duration = Duration::from_secs(10);

#[test]
fn thousands_of_aborted_tasks_leave_nothing() {
    steady(async || {
        const ROUNDS: u32 = 100;
        const TASKS: usize = 30;
        let server = RedisServer::start();
        let clients = [connect(server.url()).await, connect(server.url()).await];
        for round in 0..ROUNDS {
            let mut tasks = JoinSet::new();
            for task in 0..TASKS {
                let locks = clients[task % 2].clone();
                tasks.spawn(async move {
                    let key = format!("k{}", task % 7);
                    let request = match task % 3 {
                        0 => LockRequest::exclusive(&key),
                        1 => LockRequest::shared(&key),
                        _ => LockRequest::permit(&key, 2),
                    };
                    // Longer than the test, so that no ttl cleans up.
                    let request = request.expect("a key").with_ttl(10 * PROMPT);
                    let guard = locks.acquire(request).await;
                    let guard = guard.expect("the server runs").expect("no end");
                    tokio::task::yield_now().await;
                    guard.release().await.expect("the server runs");
                });
            }
            // The rounds cover all moments from before the first request to after the last release.
            let ends = Instant::now() + MOMENT * round;
            while Instant::now() < ends {
                tokio::task::yield_now().await;
            }
            tasks.shutdown().await;
        }
        let gone = || async { is_empty(&server) };
        eventually(PROMPT, "nothing is left", gone).await;
    });
}
