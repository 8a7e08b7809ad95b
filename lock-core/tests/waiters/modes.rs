//! Order of arrival over all modes, and the hand-off of holds with a shortened ttl.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use crate::support::{LONG, Plain, acquire, counted, grant, granted, poll};
use lock_core::{DistributedLock, DistributedLockExt, ErrorKind, LockRequest};
use lock_testkit::steady;
use tokio::task::JoinSet;
use tokio::time::{Instant, sleep, timeout};

const LONG_BUDGET: Duration = Duration::from_secs(3600);

#[tokio::test(start_paused = true)]
async fn modes_are_served_in_the_order_in_which_they_came() {
    let (store, locks) = counted(LONG_BUDGET);
    let locks: Arc<dyn DistributedLock> = Arc::new(locks);
    let first = locks.lock("k").await.unwrap();
    let [exclusive, shared, permit] = [
        LockRequest::exclusive("k").unwrap(),
        LockRequest::shared("k").unwrap(),
        LockRequest::permit("k", 2).unwrap(),
    ];
    let requests = [
        &exclusive, &shared, &exclusive, &shared, &permit, &shared, &exclusive,
    ];
    let mut waiting: Vec<_> = requests
        .into_iter()
        .map(|request| acquire(&locks, request.clone()))
        .collect();
    for waiter in &mut waiting {
        assert!(poll(waiter).is_none());
    }
    let mut last = first.token();
    drop(first);
    for number in 0..waiting.len() {
        let guard = granted((&mut waiting[number]).await);
        assert!(guard.token() > last);
        last = guard.token();
        for later in &mut waiting[number + 1..] {
            assert!(poll(later).is_none(), "number {number} was overtaken");
        }
    }
    drop(waiting);
    assert!(store.memory.claims().is_empty());
}

#[tokio::test(start_paused = true)]
async fn a_looping_writer_does_not_shut_readers_out() {
    let (_, locks) = counted(Duration::from_millis(10));
    let turns = Arc::new([AtomicUsize::new(0), AtomicUsize::new(0)]);
    let mut tasks = JoinSet::new();
    for task in 0..4 {
        let (locks, turns) = (locks.clone(), Arc::clone(&turns));
        tasks.spawn(async move {
            loop {
                let guard = match task {
                    0 | 1 => locks.lock("k").await.unwrap(),
                    _ => locks.lock_shared("k").await.unwrap(),
                };
                sleep(Duration::from_millis(1)).await;
                drop(guard);
                turns[task / 2].fetch_add(1, Ordering::SeqCst);
            }
        });
    }
    sleep(Duration::from_secs(2)).await;
    let [writers, readers] = [0, 1].map(|mode| turns[mode].load(Ordering::SeqCst));
    assert!(
        readers * 3 > writers && writers * 3 > readers,
        "{writers} {readers}"
    );
}

#[test]
fn a_store_that_shortens_the_ttl_does_not_end_the_hand_off() {
    steady(async || {
        let plain = Plain::shortening(Duration::from_secs(10));
        let locks = lock_core::HandOff::new(Arc::new(plain), LONG_BUDGET);
        let first = locks.lock("k").await.unwrap();
        assert!(first.remaining() < Duration::from_secs(10));
        let (second, released) = tokio::join!(locks.lock("k"), first.release());
        released.unwrap();
        let second = second.unwrap();
        let (third, released) = tokio::join!(locks.lock("k"), second.release());
        released.unwrap();
        assert_eq!(
            third.unwrap().token().value() % (1 << 14),
            2,
            "not handed on"
        );
    });
}

#[tokio::test(start_paused = true)]
async fn a_release_that_is_dropped_leaves_the_waiters_in_order() {
    let (_, locks) = counted(Duration::ZERO);
    let locks: Arc<dyn DistributedLock> = Arc::new(locks);
    let exclusive = || LockRequest::exclusive("k").unwrap();
    for _ in 0..10 {
        let first = locks.lock("k").await.unwrap();
        let mut waiting: Vec<_> = (0..3).map(|_| acquire(&locks, exclusive())).collect();
        for waiter in &mut waiting {
            assert!(poll(waiter).is_none());
        }
        let mut release = Box::pin(first.release());
        let _outcome = poll(&mut release);
        drop(release);
        let mut last = 0;
        for waiter in waiting {
            let guard = granted(waiter.await);
            assert!(grant(guard.token()) > last);
            last = grant(guard.token());
        }
    }
}

/// During an outage the 30 seconds count from each waiter's arrival, not from its first request.
#[test]
fn waiters_give_up_on_a_store_that_is_away_after_their_own_thirty_seconds() {
    steady(async || {
        let plain = Plain::new();
        plain.store().is_away.store(true, Ordering::SeqCst);
        let mut waits = JoinSet::new();
        for locks in [
            Arc::new(plain.handed_on()) as Arc<dyn DistributedLock>,
            Arc::new(plain.new_client()),
        ] {
            for late in [0, 0, 0, 5] {
                let locks = Arc::clone(&locks);
                waits.spawn(async move {
                    sleep(Duration::from_secs(late)).await;
                    let begin = Instant::now();
                    let error = locks.lock("k").await.expect_err("it is away");
                    assert_eq!(error.kind(), ErrorKind::Unavailable);
                    begin.elapsed()
                });
            }
        }
        while let Some(waited) = timeout(LONG * 3, waits.join_next()).await.expect("no end") {
            let waited = waited.unwrap().as_secs_f64();
            assert!((30.0..33.0).contains(&waited), "{waited}");
        }
    });
}
