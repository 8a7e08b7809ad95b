//! Slow runtimes and stores that a wait outlasts.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use crate::support::{Plain, acquire, granted, poll};
use lock_core::{DistributedLock, DistributedLockExt, ErrorKind, HandOff, LockRequest};
use lock_testkit::{block_thread, steady};
use tokio::runtime::Builder;
use tokio::task::JoinSet;
use tokio::time::{Instant, sleep};

fn exclusive() -> LockRequest {
    LockRequest::exclusive("k").expect("a key")
}

/// A store whose answers come from another thread, like those of etcd, ZooKeeper and MySQL.
#[derive(Debug)]
struct Elsewhere(Plain, tokio::runtime::Handle);

struct Aborting<T>(tokio::task::JoinHandle<T>);

impl<T> Drop for Aborting<T> {
    fn drop(&mut self) {
        self.0.abort();
    }
}

#[lock_core::backend::async_trait]
impl DistributedLock for Elsewhere {
    fn capabilities(&self) -> lock_core::Capabilities {
        self.0.capabilities()
    }
    fn keeper(&self) -> Option<&lock_core::backend::Keeper> {
        self.0.keeper()
    }
    async fn acquire(
        &self,
        request: LockRequest,
    ) -> lock_core::Result<Option<lock_core::LockGuard>> {
        let plain = self.0.clone();
        let mut work = Aborting(self.1.spawn(async move { plain.acquire(request).await }));
        (&mut work.0).await.expect("no panic")
    }
}

/// Five tasks wait for a free lock on a runtime whose only thread is blocked for 200 ms at a time.
#[test]
fn waiters_on_a_slow_runtime_are_served() {
    for handed in [false, true] {
        let there = Builder::new_multi_thread()
            .worker_threads(1)
            .enable_all()
            .build()
            .unwrap();
        let plain = Elsewhere(Plain::new(), there.handle().clone());
        let locks: Arc<dyn DistributedLock> = match handed {
            false => Arc::new(plain),
            true => Arc::new(HandOff::new(Arc::new(plain), HandOff::DEFAULT_BUDGET)),
        };
        let slow = Builder::new_current_thread().enable_all().build().unwrap();
        slow.block_on(async {
            let mut busy = JoinSet::new();
            busy.spawn(async {
                loop {
                    block_thread(Duration::from_millis(200));
                    tokio::task::yield_now().await;
                }
            });
            let begin = Instant::now();
            let mut tasks = JoinSet::new();
            for _ in 0..5 {
                let locks = Arc::clone(&locks);
                tasks.spawn(async move { drop(locks.lock("k").await.unwrap()) });
            }
            let mut served = 0;
            while let Ok(Some(_)) =
                tokio::time::timeout_at(begin + Duration::from_secs(20), tasks.join_next()).await
            {
                served += 1;
            }
            assert_eq!(served, 5, "handed: {handed}");
        });
    }
}

/// Without an earlier outage, a waiter's 30 seconds count from its first request, not its arrival.
#[test]
fn a_quiet_store_is_not_taken_for_one_that_is_away() {
    steady(async || {
        let plain = Plain::new();
        let locks: Arc<dyn DistributedLock> = Arc::new(plain.handed_on());
        let ttl = Duration::from_secs(2);
        let held = locks.acquire(exclusive().with_ttl(ttl)).await;
        let held = granted(held);
        let mut waiting = acquire(&locks, exclusive());
        assert!(poll(&mut waiting).is_none());
        // In this time the keeper renews the hold, and no other request is sent.
        let early = tokio::time::timeout(Duration::from_secs(31), &mut waiting).await;
        assert!(early.is_err() && held.is_held());
        plain.store().is_away.store(true, Ordering::SeqCst);
        let after_the_loss = async {
            held.lost().await;
            sleep(Duration::from_secs(2)).await;
        };
        tokio::select! {
            outcome = &mut waiting => panic!("gave up at once: {outcome:?}"),
            () = after_the_loss => {}
        }
    });
}

/// Each waiter outlasts an outage for 30 s of its own, also behind a waiter with another limit.
#[test]
fn a_wait_without_an_end_does_not_outlast_an_outage_behind_one_that_has_an_end() {
    steady(async || {
        let plain = Plain::new();
        let locks: Arc<dyn DistributedLock> = Arc::new(plain.handed_on());
        plain.store().is_away.store(true, Ordering::SeqCst);
        let mut first = acquire(
            &locks,
            exclusive().waiting_at_most(Duration::from_secs(120)),
        );
        assert!(poll(&mut first).is_none());
        let begin = Instant::now();
        let second = locks.lock("k");
        let outcome = tokio::select! {
            outcome = &mut first => panic!("it was to wait for longer: {outcome:?}"),
            outcome = second => outcome,
        };
        let (error, took) = (outcome.expect_err("away"), begin.elapsed());
        assert_eq!(error.kind(), ErrorKind::Unavailable, "{error}");
        let own = Duration::from_secs(30)..Duration::from_secs(33);
        assert!(own.contains(&took), "{took:?}");
        plain.store().is_away.store(false, Ordering::SeqCst);
        drop(granted(first.await));
    });
}
