//! An application that blocks every worker of its runtime.

use std::thread::park_timeout;
use std::time::Duration;

use lock_core::{Mode, Released};
use lock_testkit::servers::RedisServer;
use tokio::time::Instant;

use crate::{connect, take};

const TTL: Duration = Duration::from_millis(1500);

fn block(duration: Duration) {
    let end = Instant::now() + duration;
    while let Some(left) = end.checked_duration_since(Instant::now()) {
        park_timeout(left);
    }
}

fn assert_held_while_blocked(builder: &mut tokio::runtime::Builder) {
    const WORKERS: usize = 2;
    let server = RedisServer::start();
    let runtime = builder.worker_threads(WORKERS).enable_all().build();
    let runtime = runtime.expect("a runtime to block");
    let guard = runtime.block_on(async {
        let locks = connect(server.url()).await;
        take(&locks, "k", Mode::Exclusive, TTL).await
    });
    let blocking: Vec<_> = (0..WORKERS)
        .map(|_| runtime.spawn(async { block(TTL * 3) }))
        .collect();
    // A runtime with one thread runs its tasks on this one.
    runtime.block_on(async {
        for task in blocking {
            task.await.expect("it only blocks");
        }
    });
    assert!(guard.is_held(), "nobody renewed it");
    let exists = server.client().command(&["EXISTS", "k"]);
    assert_eq!(exists.expect("the server runs").integer(), Some(1));
    let released = runtime.block_on(guard.release());
    assert_eq!(released.expect("the server runs"), Released::Released);
}

#[test]
fn a_hold_is_renewed_while_every_worker_is_blocked() {
    assert_held_while_blocked(&mut tokio::runtime::Builder::new_multi_thread());
}

#[test]
fn a_hold_is_renewed_while_the_only_thread_is_blocked() {
    assert_held_while_blocked(&mut tokio::runtime::Builder::new_current_thread());
}
