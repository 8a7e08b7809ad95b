//! Hand-off of held keys inside a process, on paused time where time matters.

use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use async_trait::async_trait;
use lock_core::backend::Released;
use lock_core::{
    Capabilities, DistributedLock, DistributedLockExt, FencingToken, HandOff, LockGuard, LockKey,
    LockRequest, LossReason, MemoryLock, Result,
};
use lock_testkit::assert_excluded;
use tokio::task::JoinSet;
use tokio::time::{Instant, sleep, timeout};

const BUDGET: Duration = Duration::from_millis(10);

/// A memory backend that counts acquisitions.
#[derive(Debug)]
struct Counted {
    memory: MemoryLock,
    asked: AtomicUsize,
}

#[async_trait]
impl DistributedLock for Counted {
    fn capabilities(&self) -> Capabilities {
        self.memory.capabilities()
    }

    async fn acquire(&self, request: LockRequest) -> Result<Option<LockGuard>> {
        self.asked.fetch_add(1, Ordering::SeqCst);
        self.memory.acquire(request).await
    }
}

fn store() -> (Arc<Counted>, HandOff) {
    let counted = Arc::new(Counted {
        memory: MemoryLock::new(),
        asked: AtomicUsize::new(0),
    });
    (Arc::clone(&counted), HandOff::new(counted, BUDGET))
}

fn asked(store: &Counted) -> usize {
    store.asked.load(Ordering::SeqCst)
}

fn grant(token: FencingToken) -> u64 {
    token.value() >> 14
}

#[tokio::test(start_paused = true)]
async fn waiters_get_the_key_in_order_from_one_claim() {
    let (store, locks) = store();
    let first = locks.lock("k").await.unwrap();
    let mut tasks = JoinSet::new();
    for number in 0..20 {
        let locks = locks.clone();
        tasks.spawn(async move {
            let guard = locks.lock("k").await.unwrap();
            let token = guard.token();
            assert_eq!(guard.release().await.unwrap(), Released::Released);
            (number, token)
        });
        tokio::task::yield_now().await;
    }
    let mut last = first.token();
    drop(first);
    for expected in 0..20 {
        let (number, token) = tasks.join_next().await.unwrap().unwrap();
        assert_eq!(number, expected, "served out of order");
        assert!(token > last && grant(token) == grant(last));
        last = token;
    }
    assert_eq!(asked(&store), 1);
    assert!(store.memory.claims().is_empty());
}

#[tokio::test(start_paused = true)]
async fn a_spent_budget_gives_the_key_back_to_the_store() {
    let (store, locks) = store();
    let other_process = store.memory.clone();
    let first = locks.lock("k").await.unwrap();
    let mut there = JoinSet::new();
    there.spawn(async move { other_process.lock("k").await.unwrap().token() });
    tokio::task::yield_now().await;
    let mut here = pin!(locks.lock("k"));
    tokio::select! {
        biased;
        _ = &mut here => assert_excluded!(false, "held"),
        () = sleep(BUDGET) => {}
    }
    let (ours, theirs) = (first.token(), async {
        there.join_next().await.unwrap().unwrap()
    });
    first.release().await.unwrap();
    let (here, theirs) = tokio::join!(here, theirs);
    let here = here.unwrap().token();
    assert!(ours < theirs && theirs < here, "{ours} {theirs} {here}");
    assert_eq!(asked(&store), 2);
}

#[tokio::test(start_paused = true)]
async fn a_waiter_that_has_gone_is_passed_over() {
    let (store, locks) = store();
    let first = locks.lock("k").await.unwrap();
    {
        let mut gone = pin!(locks.lock("k"));
        tokio::select! { biased; _ = &mut gone => assert_excluded!(false, "held"), () = std::future::ready(()) => {} }
    }
    let mut next = pin!(locks.lock("k"));
    tokio::select! { biased; _ = &mut next => assert_excluded!(false, "held"), () = std::future::ready(()) => {} }
    drop(first);
    assert!(next.await.unwrap().is_held());
    assert_eq!(asked(&store), 1);
}

#[tokio::test(start_paused = true)]
async fn a_key_handed_to_a_waiter_that_goes_before_it_looks_is_not_stuck() {
    let (store, locks) = store();
    let first = locks.lock("k").await.unwrap();
    {
        let mut gone = pin!(locks.lock("k"));
        tokio::select! { biased; _ = &mut gone => assert_excluded!(false, "held"), () = std::future::ready(()) => {} }
        drop(first);
    }
    assert!(store.memory.claims().is_empty(), "left behind");
    assert!(locks.try_lock("k").await.unwrap().is_some());
}

#[tokio::test(start_paused = true)]
async fn a_waiter_that_is_never_polled_again_keeps_a_handed_key_for_a_moment_at_most() {
    let (_, locks) = store();
    let first = locks.lock("k").await.unwrap();
    let mut resting = pin!(locks.lock("k"));
    tokio::select! { biased; _ = &mut resting => assert_excluded!(false, "held"), () = std::future::ready(()) => {} }
    drop(first);
    let next = locks
        .lock_within("k", Duration::from_millis(250))
        .await
        .unwrap();
    assert!(next.is_some(), "renewed for somebody who does not look");
}

#[tokio::test(start_paused = true)]
async fn the_earlier_guard_and_its_watch_are_over_once_the_key_is_handed_on() {
    let (_, locks) = store();
    let first = locks.lock("k").await.unwrap();
    let watch = first.watch();
    let (second, released) = tokio::join!(locks.lock("k"), first.release());
    assert_eq!(released.unwrap(), Released::Released);
    let second = second.unwrap();
    assert!(second.is_held());
    assert_excluded!(!watch.is_held());
    assert_eq!(watch.remaining(), Duration::ZERO);
    assert_eq!(watch.lost().await, LossReason::Released);
}

#[tokio::test(start_paused = true)]
async fn a_lost_hold_lets_the_others_claim_anew_while_its_guard_is_still_there() {
    let (store, locks) = store();
    let request = LockRequest::exclusive("k")
        .unwrap()
        .with_ttl(Duration::from_secs(3));
    let lost = locks.acquire(request).await.unwrap().unwrap();
    let waiter = locks.lock_within("k", Duration::from_secs(3600));
    let losing = async {
        tokio::task::yield_now().await;
        store.memory.evict(&LockKey::new("k").unwrap());
        assert_eq!(lost.lost().await, LossReason::Removed);
    };
    let (next, ()) = tokio::join!(waiter, losing);
    let next = next.unwrap().expect("the lost guard is in the way");
    assert!(next.token() > lost.token() && next.is_held());
    drop(lost);
    assert!(
        next.is_held(),
        "the lost guard took the next one's hold along"
    );
    let mut third = pin!(locks.lock("k"));
    tokio::select! { biased; _ = &mut third => assert_excluded!(false, "held"), () = sleep(BUDGET / 4) => {} }
    drop(next);
    assert!(third.await.unwrap().is_held());
}

#[tokio::test(start_paused = true)]
async fn a_lost_guard_that_is_dropped_late_does_not_disturb_the_next_turn() {
    let (store, locks) = store();
    let lost = locks.lock("k").await.unwrap();
    store.memory.evict(&LockKey::new("k").unwrap());
    assert_eq!(lost.lost().await, LossReason::Removed);
    let limit = Duration::from_secs(3600);
    let next = locks.lock_within("k", limit).await.unwrap();
    let next = next.expect("the lost guard is in the way");
    drop(lost);
    let (third, released) = tokio::join!(locks.lock("k"), next.release());
    released.unwrap();
    assert!(third.unwrap().is_held());
    assert_eq!(
        asked(&store),
        2,
        "the third waiter asked the store although it stood in line"
    );
}

#[tokio::test(start_paused = true)]
async fn the_last_hand_off_of_a_grant_goes_back_to_the_store_and_nobody_is_forgotten() {
    let store = Arc::new(Counted {
        memory: MemoryLock::new(),
        asked: AtomicUsize::new(0),
    });
    let locks = HandOff::new(store.clone(), Duration::from_secs(3600));
    let mut guard = locks.lock("k").await.unwrap();
    for _ in 0..16_400 {
        let mut next = pin!(locks.lock("k"));
        tokio::select! { biased; _ = &mut next => assert_excluded!(false, "held"), () = std::future::ready(()) => {} }
        assert_eq!(guard.release().await.unwrap(), Released::Released);
        guard = next.await.unwrap();
    }
    assert_eq!(asked(&store), 2);
}

#[tokio::test(start_paused = true)]
async fn another_ttl_ends_the_turn() {
    let (store, locks) = store();
    let first = locks.lock("k").await.unwrap();
    let request = LockRequest::exclusive("k")
        .unwrap()
        .with_ttl(Duration::from_secs(5));
    let (second, released) = tokio::join!(locks.acquire(request), first.release());
    released.unwrap();
    assert!(second.unwrap().unwrap().remaining() < Duration::from_secs(5));
    assert_eq!(asked(&store), 2);
}

#[tokio::test(start_paused = true)]
async fn a_hold_is_handed_on_to_the_same_label_only() {
    let (store, locks) = store();
    let labelled = |label| {
        LockRequest::exclusive("k")
            .unwrap()
            .labelled(label)
            .unwrap()
    };
    let mut guard = locks.acquire(labelled("a")).await.unwrap().unwrap();
    for (label, grants) in [("a", 1), ("b", 2), ("b", 2)] {
        let (next, released) = tokio::join!(locks.acquire(labelled(label)), guard.release());
        released.unwrap();
        guard = next.unwrap().unwrap();
        assert_eq!(asked(&store), grants, "{label}");
        let info = store.memory.inspect("k").await.unwrap();
        assert_eq!(info.holders[0].label.as_deref(), Some(label));
    }
}

#[tokio::test(start_paused = true)]
async fn a_wait_that_ends_in_line_is_busy_and_leaves_nothing() {
    let (store, locks) = store();
    let first = locks.lock("k").await.unwrap();
    let start = Instant::now();
    let none = locks
        .lock_within("k", Duration::from_millis(500))
        .await
        .unwrap();
    assert_excluded!(none.is_none());
    assert_eq!(start.elapsed(), Duration::from_millis(500));
    assert_excluded!(locks.try_lock("k").await.unwrap().is_none());
    drop(first);
    assert!(store.memory.claims().is_empty());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn two_processes_with_random_cancellation_never_overlap_and_all_are_served() {
    let memory = MemoryLock::new();
    let processes: Vec<HandOff> = (0..2)
        .map(|_| HandOff::new(Arc::new(memory.clone()), Duration::from_millis(1)))
        .collect();
    let inside = Arc::new(AtomicUsize::new(0));
    let mut tasks = JoinSet::new();
    for task in 0..16_usize {
        let (locks, inside) = (processes[task % 2].clone(), Arc::clone(&inside));
        tasks.spawn(async move {
            let mut served = 0;
            let mut last = None;
            while served < 300 {
                let patience =
                    Duration::from_micros((served * 7919 + task * 104_729) as u64 % 900 + 50);
                let Ok(guard) = timeout(patience, locks.lock("hot")).await else {
                    continue;
                };
                let guard = guard.unwrap();
                assert_excluded!(inside.fetch_add(1, Ordering::SeqCst) == 0, "two inside");
                assert!(Some(guard.token()) > last, "the token went back");
                last = Some(guard.token());
                tokio::task::yield_now().await;
                inside.fetch_sub(1, Ordering::SeqCst);
                served += 1;
            }
        });
    }
    let limit = Duration::from_secs(30);
    let served = timeout(limit, async {
        while let Some(task) = tasks.join_next().await {
            task.unwrap();
        }
    });
    served.await.expect("somebody is not served");
    assert!(memory.claims().is_empty());
}
