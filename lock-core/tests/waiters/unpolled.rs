//! Waiters that were woken and are not polled delay no other waiter.

use std::sync::Arc;
use std::time::Duration;

use crate::support::{LONG, Plain, acquire, counted, granted, poll};
use lock_core::{DistributedLock, DistributedLockExt, HandOff, LockRequest, MemoryLock};
use lock_testkit::steady;
use tokio::runtime::{Builder, Runtime};
use tokio::time::{Instant, sleep, timeout};

const LIMIT: Duration = Duration::from_millis(100);

fn exclusive() -> LockRequest {
    LockRequest::exclusive("k").expect("a key")
}

/// Returns a client without hand-off and a client with it, each with another client of its store.
fn both() -> [[Arc<dyn DistributedLock>; 2]; 2] {
    let (bare, under) = (Plain::new(), Plain::new());
    [
        [Arc::new(bare.clone()), Arc::new(bare.new_client())],
        [Arc::new(under.handed_on()), Arc::new(under.new_client())],
    ]
}

#[test]
fn whoever_waits_behind_a_future_that_is_not_polled_gets_the_lock() {
    steady(async || {
        for [locks, other] in both() {
            let held = other.lock("k").await.unwrap();
            let mut resting = acquire(&locks, exclusive());
            assert!(poll(&mut resting).is_none());
            let mut next = acquire(&locks, exclusive());
            assert!(poll(&mut next).is_none());
            held.release().await.unwrap();
            let begin = Instant::now();
            let guard = granted(timeout(LONG, next).await.expect("held up"));
            assert!(begin.elapsed() < LIMIT * 20, "{:?}", begin.elapsed());
            let token = guard.token();
            guard.release().await.unwrap();
            // The unpolled waiter goes on waiting, without an error.
            let late = granted(timeout(LONG, resting).await.expect("forgotten"));
            assert!(late.token() > token && late.is_held());
        }
    });
}

#[test]
fn a_key_that_was_handed_to_a_future_that_is_not_polled_goes_to_the_next() {
    steady(async || {
        for [locks, _] in both() {
            let first = locks.lock("k").await.unwrap();
            let mut resting = acquire(&locks, exclusive());
            assert!(poll(&mut resting).is_none());
            let token = first.token();
            drop(first);
            let next = timeout(LONG, locks.lock("k")).await.expect("held up");
            let next = next.unwrap();
            assert!(next.token() > token);
            assert!(poll(&mut resting).is_none());
            let token = next.token();
            drop(next);
            let late = granted(timeout(LONG, resting).await.expect("forgotten"));
            assert!(late.token() > token && late.is_held());
        }
    });
}

#[test]
fn tries_and_other_processes_are_not_held_up_either() {
    steady(async || {
        for [locks, other] in both() {
            let held = other.lock("k").await.unwrap();
            let mut resting = acquire(&locks, exclusive());
            assert!(poll(&mut resting).is_none());
            held.release().await.unwrap();
            // In this time a polled waiter would be granted the key.
            let free = async {
                while locks.try_lock("k").await.unwrap().is_none() {
                    sleep(Duration::from_millis(5)).await;
                }
                other.lock("k").await.unwrap()
            };
            drop(timeout(LONG, free).await.expect("held up"));
            drop(granted(timeout(LONG, resting).await.expect("forgotten")));
        }
    });
}

#[test]
fn a_runtime_that_nobody_drives_any_more_holds_nobody_up() {
    steady(async || {
        for handed in [false, true] {
            let plain = Plain::new();
            let locks: Arc<dyn DistributedLock> = match handed {
                true => Arc::new(plain.handed_on()),
                false => Arc::new(plain.clone()),
            };
            let first = locks.lock("k").await.unwrap();
            // The first waiter has the claim or gets the hand-off; none of them is polled again.
            let there = Arc::clone(&locks);
            let still = tokio::task::spawn_blocking(move || {
                let runtime = Builder::new_current_thread().enable_all().build().unwrap();
                let mut waiting: Vec<_> = (0..100).map(|_| acquire(&there, exclusive())).collect();
                runtime.block_on(async {
                    for waiter in &mut waiting {
                        assert!(poll(waiter).is_none());
                    }
                });
                (runtime, waiting)
            });
            let still: (Runtime, Vec<_>) = still.await.unwrap();
            let mut next = acquire(&locks, exclusive());
            assert!(poll(&mut next).is_none());
            drop(first);
            let begin = Instant::now();
            let next = granted(timeout(LONG, next).await.expect("held up"));
            assert!(begin.elapsed() < LIMIT * 30, "{:?}", begin.elapsed());
            drop(next);
            let (runtime, waiting) = still;
            let late = tokio::task::spawn_blocking(move || {
                runtime.block_on(async {
                    for waiter in waiting {
                        drop(granted(timeout(LONG, waiter).await.expect("forgotten")));
                    }
                });
            });
            late.await.unwrap();
        }
    });
}

#[test]
fn a_client_is_shut_down_in_time_although_waiters_are_not_polled() {
    steady(async || {
        for [locks, other] in both() {
            let _held = other.lock("k").await.unwrap();
            let waiting = (0..3).map(|_| acquire(&locks, exclusive()));
            let mut waiting: Vec<_> = waiting.collect();
            for waiter in &mut waiting {
                assert!(poll(waiter).is_none());
            }
            locks.shutdown(LONG).await.unwrap();
            for waiter in waiting {
                waiter.await.unwrap_err();
            }
        }
    });
}

/// For example in a loop over `select!` whose other branch is slow.
#[test]
fn a_future_that_is_polled_rarely_gets_a_free_lock_in_the_end() {
    steady(async || {
        for [locks, _] in both() {
            let mut rare = acquire(&locks, exclusive());
            let mut polls = 0;
            let guard = loop {
                if let Some(outcome) = poll(&mut rare) {
                    break granted(outcome);
                }
                polls += 1;
                assert!(polls < 40, "never");
                sleep(LIMIT * 3).await;
            };
            assert!(guard.is_held());
        }
    });
}

#[tokio::test(start_paused = true)]
async fn a_hand_off_lapses_in_time_and_polled_waiters_keep_their_order() {
    let (store, locks) = counted(Duration::from_secs(3600));
    let locks: Arc<dyn DistributedLock> = Arc::new(locks);
    let first = locks.lock("k").await.unwrap();
    let mut waiters: Vec<_> = (0..5).map(|_| acquire(&locks, exclusive())).collect();
    for waiter in &mut waiters {
        assert!(poll(waiter).is_none());
    }
    let mut last = first.token();
    let begin = Instant::now();
    drop(first);
    // Only the first, third and last waiter are polled.
    for number in [0, 2, 4] {
        let guard = granted((&mut waiters[number]).await);
        assert!(guard.token() > last);
        last = guard.token();
    }
    let lapsed = begin.elapsed();
    assert!(lapsed >= LIMIT * 2, "{lapsed:?}");
    assert!(lapsed <= LIMIT * 4, "{lapsed:?}");
    for number in [1, 3] {
        let guard = granted((&mut waiters[number]).await);
        assert!(guard.token() > last);
        last = guard.token();
    }
    assert!(store.memory.claims().is_empty());
}

#[tokio::test(start_paused = true)]
async fn a_short_ttl_has_a_tenth_of_it() {
    let (_, locks) = counted(Duration::from_secs(3600));
    let locks: Arc<dyn DistributedLock> = Arc::new(locks);
    let ttl = Duration::from_millis(100);
    let request = exclusive().with_ttl(ttl);
    let first = granted(locks.acquire(request.clone()).await);
    let mut resting = acquire(&locks, request.clone());
    assert!(poll(&mut resting).is_none());
    drop(first);
    let begin = Instant::now();
    drop(granted(locks.acquire(request).await));
    assert!(begin.elapsed() <= ttl / 3, "{:?}", begin.elapsed());
}

#[tokio::test(start_paused = true)]
async fn in_memory_nobody_is_held_up_by_a_claim_that_is_not_polled() {
    let memory = MemoryLock::new();
    for locks in [
        Arc::new(memory.new_client()) as Arc<dyn DistributedLock>,
        Arc::new(HandOff::new(Arc::new(memory.new_client()), LIMIT)),
    ] {
        let held = memory.lock("k").await.unwrap();
        let mut resting = acquire(&locks, exclusive());
        assert!(poll(&mut resting).is_none());
        drop(held);
        let begin = Instant::now();
        drop(memory.lock("k").await.unwrap());
        assert!(begin.elapsed() <= LIMIT * 3, "{:?}", begin.elapsed());
        drop(granted(resting.await));
    }
}

#[test]
fn two_futures_that_are_polled_rarely_get_a_free_lock_in_the_end() {
    steady(async || {
        for [locks, _] in both() {
            let mut rare = [acquire(&locks, exclusive()), acquire(&locks, exclusive())];
            let begin = Instant::now();
            let mut polls = 0;
            let guard = 'granted: loop {
                for one in &mut rare {
                    if let Some(outcome) = poll(one) {
                        break 'granted granted(outcome);
                    }
                }
                polls += 1;
                assert!(
                    polls < 60,
                    "a free lock, and never granted in {:?}",
                    begin.elapsed()
                );
                sleep(LIMIT * 3).await;
            };
            assert!(guard.is_held());
        }
    });
}

/// For example a release in a `select!` that runs another branch.
#[test]
fn a_release_that_is_not_polled_keeps_nobody_waiting() {
    steady(async || {
        for [locks, _] in both() {
            let guard = locks.lock("k").await.unwrap();
            let token = guard.token();
            let mut release = Box::pin(guard.release());
            assert!(poll(&mut release).is_none(), "its answer takes a moment");
            let next = timeout(LONG, locks.lock("k")).await.expect("held up");
            assert!(next.unwrap().token() > token);
            release.await.unwrap();
        }
    });
}
