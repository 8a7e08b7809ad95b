//! Futures and runtimes that are not polled.

use std::future::poll_fn;
use std::pin::Pin;
use std::sync::Arc;
use std::task::Poll;
use std::time::Duration;

use lock_core::{DistributedLock, DistributedLockExt, LockRequest};
use lock_testkit::servers::EtcdCluster;
use lock_testkit::{eventually, steady};
use tokio::runtime::Builder;
use tokio::task::spawn_blocking;
use tokio::time::Instant;

use crate::{PROMPT, connect, lock_for};

const TTL: Duration = Duration::from_secs(3);

/// Polls `work` once, which must not be ready.
async fn poll_once<T>(mut work: Pin<&mut impl Future<Output = T>>) {
    poll_fn(|context| {
        assert!(work.as_mut().poll(context).is_pending());
        Poll::Ready(())
    })
    .await;
}

fn take(key: &str, ttl: Duration) -> LockRequest {
    let request = LockRequest::exclusive(key).expect("a key");
    request.with_ttl(ttl).without_waiting()
}

/// A runtime that is driven only now and then, or whose only thread is blocked, reads no answers.
#[test]
fn a_take_that_was_given_up_on_a_runtime_that_stands_still_blocks_nobody() {
    steady(async || {
        let cluster = EtcdCluster::start(1);
        let (locks, other) = (
            Arc::new(connect(cluster.url()).await),
            connect(cluster.url()).await,
        );
        let given_up = Arc::clone(&locks);
        let standing_still = spawn_blocking(move || {
            let runtime = Builder::new_current_thread().enable_all().build().unwrap();
            runtime.block_on(async {
                // Opens the connection of this runtime, and grants the lease.
                lock_for(&given_up, "warm", TTL)
                    .await
                    .release()
                    .await
                    .unwrap();
                let mut taking = Box::pin(given_up.acquire(take("k", TTL)));
                poll_once(taking.as_mut()).await;
                // Enough turns to write the request, but not to read its answer.
                for _ in 0..4 {
                    tokio::task::yield_now().await;
                }
            });
            runtime
        });
        let runtime = standing_still.await.unwrap();
        eventually(4 * TTL, "the key is free", || async {
            other.try_lock("k").await.unwrap().is_some()
        })
        .await;
        locks.shutdown(PROMPT).await.expect("nothing is left");
        runtime.shutdown_background();
    });
}

#[test]
fn who_asks_for_a_lease_and_gets_no_turn_holds_nobody_up() {
    steady(async || {
        let cluster = EtcdCluster::start(1);
        let locks = Arc::new(connect(cluster.url()).await);
        let mut first = Box::pin(locks.acquire(take("a", 2 * TTL)));
        poll_once(first.as_mut()).await;
        let beside = Arc::clone(&locks);
        let elsewhere = spawn_blocking(move || {
            let runtime = Builder::new_current_thread().enable_all().build().unwrap();
            runtime.block_on(async { beside.acquire(take("b", 3 * TTL)).await })
        });
        let guard = elsewhere.await.unwrap();
        assert!(matches!(guard, Ok(Some(_))), "{guard:?}");
        drop(first);
    });
}

/// A program without async code of its own uses guards like this.
#[test]
fn a_guard_that_is_dropped_outside_of_its_runtime_frees_its_key_at_once() {
    const ROUNDS: usize = 10;
    let cluster = EtcdCluster::start(1);
    let [own, others] = [(); 2].map(|()| {
        let runtime = Builder::new_current_thread().enable_all().build();
        runtime.expect("a runtime")
    });
    let locks = own.block_on(connect(cluster.url()));
    let other = others.block_on(connect(cluster.url()));
    let mut slow = 0;
    for _ in 0..ROUNDS {
        let guard = own.block_on(lock_for(&locks, "k", TTL));
        let begin = Instant::now();
        drop(guard);
        let next = others.block_on(other.lock("k")).expect("it runs");
        slow += usize::from(begin.elapsed() > Duration::from_millis(400));
        drop(next);
        own.block_on(locks.lock("k")).map(drop).expect("it runs");
    }
    assert!(slow < ROUNDS / 2, "{slow} of {ROUNDS} came late");
}
