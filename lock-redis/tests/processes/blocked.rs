//! An application that blocks every worker of its runtime.

use std::time::Duration;

use lock_core::Mode;
use lock_core::backend::Released;
use lock_testkit::block_workers;
use lock_testkit::servers::RedisServer;

use crate::{connect, take};

const TTL: Duration = Duration::from_millis(1500);

fn assert_held_while_blocked(builder: &mut tokio::runtime::Builder) {
    const WORKERS: usize = 2;
    let server = RedisServer::start();
    let runtime = builder.worker_threads(WORKERS).enable_all().build();
    let runtime = runtime.expect("a runtime to block");
    let guard = runtime.block_on(async {
        let locks = connect(server.url()).await;
        take(&locks, "k", Mode::Exclusive, TTL).await
    });
    block_workers(&runtime, WORKERS, TTL * 3);
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
