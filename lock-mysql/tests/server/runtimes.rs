//! Clients in several runtimes, some of which are not driven or end.

use std::future::poll_fn;
use std::sync::Barrier;
use std::task::Poll;
use std::time::Duration;

use futures_executor::block_on;
use lock_core::backend::Released;
use lock_core::{DistributedLock, DistributedLockExt, ErrorKind, Wait};
use lock_mysql::{MySqlHold, MySqlLock};
use lock_testkit::servers::{SqlServer, SqlVendor};
use lock_testkit::{eventually, steady};
use tokio::runtime::{Builder, Runtime};
use tokio::task::spawn_blocking;
use tokio::time::{Instant, timeout};

use crate::{BOTH, LONG, PROMPT, connect, exclusive, take, take_soon};

/// Less than the time that a release waits for a runtime that may be driven.
const SOON: Duration = Duration::from_millis(400);

/// Runs a test with runtimes of its own like [`steady`].
fn steady_outside(test: fn()) {
    steady(async || {
        if let Err(failed) = spawn_blocking(test).await {
            std::panic::resume_unwind(failed.into_panic());
        }
    });
}

fn runtime() -> Runtime {
    Builder::new_current_thread()
        .enable_all()
        .build()
        .expect("a runtime")
}

/// Takes and releases a lock, sooner than a silent connection times out.
async fn works(locks: &MySqlLock, key: &str) {
    let using = async {
        let guard = take(locks, key, LONG).await;
        guard.release().await.expect("the server runs");
    };
    timeout(Duration::from_secs(1), using)
        .await
        .expect("no runtime waits for another one");
}

#[test]
fn a_runtime_that_nobody_drives_holds_nobody_up() {
    let server = SqlServer::start(SqlVendor::MariaDb);
    for hold in BOTH {
        let first = runtime();
        let locks = first.block_on(connect(&server, hold));
        first.block_on(works(&locks, "warm"));
        let guard = first.block_on(take(&locks, "left", LONG));
        // The first runtime still exists, but no thread drives it.
        let second = runtime();
        second.block_on(works(&locks, "a"));
        drop(guard);
        second.block_on(async {
            let next = locks.lock_within("left", PROMPT).await;
            assert!(next.expect("the server runs").is_some(), "still held");
        });
        first.block_on(works(&locks, "b"));
    }
}

/// Waits until four connections are left: that of `connect`, two of a live runtime, and this
/// query's.
async fn few_connections_stay(server: &SqlServer) {
    let list = "SELECT COUNT(*) FROM information_schema.processlist WHERE user <> 'system user'";
    eventually(PROMPT, "dropped runtimes leave no connections", || async {
        server.execute(list).trim().parse::<u32>().expect("a count") <= 4
    })
    .await;
}

#[test]
fn a_lone_task_takes_and_releases_on_one_connection() {
    let server = SqlServer::start(SqlVendor::MariaDb);
    let runtime = runtime();
    let locks = runtime.block_on(connect(&server, MySqlHold::Lease));
    let list = "SELECT COUNT(*) FROM information_schema.processlist WHERE user <> 'system user'";
    let connections = || server.execute(list).trim().parse::<u32>().expect("a count");
    let before = connections();
    for key in ["a", "a", "b"] {
        runtime.block_on(works(&locks, key));
    }
    assert_eq!(connections(), before + 1);
}

#[test]
fn connections_end_with_their_runtimes() {
    let server = SqlServer::start(SqlVendor::MariaDb);
    let first = runtime();
    let locks = first.block_on(connect(&server, MySqlHold::Lease));
    for key in ["a", "b", "c", "d", "e", "f", "g", "h"] {
        runtime().block_on(works(&locks, key));
    }
    first.block_on(few_connections_stay(&server));
}

#[test]
fn connections_of_runtimes_that_ended_together_go_without_a_new_one() {
    let server = SqlServer::start(SqlVendor::MariaDb);
    let first = runtime();
    let locks = first.block_on(connect(&server, MySqlHold::Lease));
    first.block_on(works(&locks, "warm"));
    let all_are_there = Barrier::new(8);
    std::thread::scope(|scope| {
        for key in ["a", "b", "c", "d", "e", "f", "g", "h"] {
            let (locks, all_are_there) = (&locks, &all_are_there);
            scope.spawn(move || {
                let runtime = runtime();
                runtime.block_on(works(locks, key));
                all_are_there.wait();
            });
        }
    });
    first.block_on(few_connections_stay(&server));
}

/// Also outside any runtime, and in a runtime whose connections no thread drives.
#[test]
fn a_guard_can_be_released_from_any_thread() {
    steady_outside(release_from_any_thread);
}

fn release_from_any_thread() {
    let server = SqlServer::start(SqlVendor::MariaDb);
    for hold in BOTH {
        let runtime = runtime();
        let locks = runtime.block_on(connect(&server, hold));
        runtime.block_on(works(&locks, "warm"));
        let outside = runtime.block_on(take(&locks, "outside", LONG));
        std::thread::scope(|scope| {
            let releasing = scope.spawn(|| block_on(outside.release()));
            let released = releasing.join().expect("no panic");
            assert_eq!(released.expect("the server runs"), Released::Released);
        });
        // A stalled machine delays some of the releases, but not all.
        let least = (0..5).map(|_| release_inside(&runtime, &locks)).min();
        assert!(least < Some(SOON), "{hold:?}: {least:?}");
        runtime.block_on(works(&locks, "inside"));
    }
}

/// Returns the time of a release inside a runtime that is not driven.
fn release_inside(runtime: &Runtime, locks: &MySqlLock) -> Duration {
    let guard = runtime.block_on(take(locks, "inside", LONG));
    let _entered = runtime.enter();
    let begun = Instant::now();
    // The client cannot know if the server received the first request.
    block_on(guard.release()).expect("the server runs");
    begun.elapsed()
}

/// In a synchronous program no thread drives the runtime between two calls of `block_on`.
#[test]
fn a_guard_that_is_dropped_between_two_turns_of_its_runtime_frees_its_key_at_once() {
    steady_outside(drop_between_turns);
}

fn drop_between_turns() {
    let server = SqlServer::start(SqlVendor::MariaDb);
    for hold in BOTH {
        let [first, second] = [runtime(), runtime()];
        let locks = first.block_on(connect(&server, hold));
        let other = second.block_on(connect(&server, hold));
        first.block_on(works(&locks, "k"));
        second.block_on(works(&other, "warm"));
        for inside in [false, true] {
            let guard = first.block_on(take(&locks, "k", LONG));
            let entered = inside.then(|| first.enter());
            drop(guard);
            drop(entered);
            let begun = Instant::now();
            let next = second.block_on(take_soon(&other, exclusive("k", LONG)));
            let took = begun.elapsed();
            assert!(took < SOON, "{hold:?}, {inside}: {took:?}");
            second.block_on(next.release()).expect("the server runs");
        }
    }
}

#[test]
fn a_runtime_without_sockets_is_told_what_it_lacks() {
    let server = SqlServer::start(SqlVendor::MariaDb);
    let locks = runtime().block_on(connect(&server, MySqlHold::Lease));
    let lacking = Builder::new_current_thread().enable_time().build();
    let asked = exclusive("k", LONG).with_wait(Wait::Forever);
    let refused = lacking
        .expect("a runtime")
        .block_on(locks.acquire(asked))
        .expect_err("it cannot connect");
    assert_eq!(refused.kind(), ErrorKind::Config, "{refused}");
    assert!(refused.to_string().contains("enable_io"), "{refused}");
}

/// Begins to take `key` on `runtime`, with a single poll.
fn begin_to_take(runtime: &Runtime, locks: &MySqlLock, key: &str) {
    runtime.block_on(async {
        works(locks, "warm").await;
        let mut taking = Box::pin(locks.acquire(exclusive(key, LONG)));
        poll_fn(|context| {
            let answer = taking.as_mut().poll(context);
            assert!(answer.is_pending(), "somebody has the row");
            Poll::Ready(())
        })
        .await;
    });
}

/// No thread drives the runtime, so no task can wait for the take's answer.
#[test]
fn a_take_that_was_given_up_on_a_runtime_that_stands_still_blocks_nobody() {
    steady(async || {
        for vendor in SqlVendor::available() {
            let server = SqlServer::start(vendor);
            let locks = connect(&server, MySqlHold::Lease).await;
            let blocking_claim = connect(&server, MySqlHold::Row).await;
            works(&locks, "k").await;
            let held = take(&blocking_claim, "k", LONG).await;
            let given_up = locks.clone();
            let standing_still = spawn_blocking(move || {
                let runtime = runtime();
                begin_to_take(&runtime, &given_up, "k");
                runtime
            });
            let standing_still = standing_still.await.expect("no panic");
            held.release().await.expect("the server runs");
            let request = exclusive("k", LONG).with_wait(Wait::within(PROMPT));
            let next = locks.acquire(request).await.expect("the server runs");
            assert!(next.is_some(), "{vendor:?}: granted to nobody");
            standing_still.shutdown_background();
        }
    });
}
