//! Readers that wait together share one grant, on paused time.

use std::sync::Arc;
use std::time::Duration;

use crate::support::{Acquiring, Counted, acquire, counted, grant, granted, poll};
use lock_core::backend::Released;
use lock_core::{
    DistributedLock, DistributedLockExt, HoldState, LockGuard, LockKey, LockRequest, LossReason,
};
use lock_testkit::block_thread;
use tokio::time::{Instant, sleep};

const BUDGET: Duration = Duration::from_millis(10);
const TTL: Duration = Duration::from_secs(30);

fn shared() -> LockRequest {
    LockRequest::shared("k").expect("a key")
}

fn waiting(locks: &Arc<dyn DistributedLock>, requests: Vec<LockRequest>) -> Vec<Acquiring> {
    let mut waiting: Vec<_> = requests
        .into_iter()
        .map(|request| acquire(locks, request))
        .collect();
    for waiter in &mut waiting {
        assert!(poll(waiter).is_none());
    }
    waiting
}

async fn all(waiting: Vec<Acquiring>) -> Vec<LockGuard> {
    let mut guards = Vec::new();
    for waiter in waiting {
        guards.push(granted(waiter.await));
    }
    guards
}

/// Returns guards of readers that waited together behind a writer of another process.
async fn readers(
    requests: Vec<LockRequest>,
) -> (Arc<Counted>, Arc<dyn DistributedLock>, Vec<LockGuard>) {
    let (store, locks) = counted(BUDGET);
    let locks: Arc<dyn DistributedLock> = Arc::new(locks);
    let other = store.memory.new_client();
    let writer = other.lock("k").await.expect("it is free");
    let waiting = waiting(&locks, requests);
    drop(writer);
    let guards = all(waiting).await;
    (store, locks, guards)
}

#[tokio::test(start_paused = true)]
async fn readers_that_wait_together_cost_one_claim_and_have_tokens_of_their_own() {
    let (store, locks, guards) = readers(vec![shared(); 50]).await;
    assert_eq!(store.asked(), 1);
    assert_eq!(store.memory.claims().len(), 1);
    for pair in guards.windows(2) {
        assert!(pair[0].token() < pair[1].token());
        assert_eq!(grant(pair[0].token()), grant(pair[1].token()));
    }
    // A later reader does not join the existing grant.
    let later = locks.lock_shared("k").await.unwrap();
    assert!(grant(later.token()) > grant(guards[0].token()));
    assert_eq!(store.asked(), 2);
}

#[tokio::test(start_paused = true)]
async fn each_reader_ends_by_itself_and_the_last_one_gives_the_lock_back() {
    let (store, _, mut guards) = readers(vec![shared(); 4]).await;
    let watches: Vec<_> = guards.iter().map(LockGuard::watch).collect();
    let mut states = watches[0].states();
    assert!(matches!(states.next().await, Some(HoldState::Held { .. })));
    let last = guards.pop().unwrap();
    let first = guards.remove(0);
    assert_eq!(first.release().await.unwrap(), Released::Released);
    assert_eq!(
        states.next().await,
        Some(HoldState::Lost(LossReason::Released))
    );
    assert_eq!(watches[0].lost().await, LossReason::Released);
    assert!(watches[1].is_held() && guards[0].is_held());
    drop(guards);
    assert!(!watches[2].is_held() && last.is_held());
    sleep(TTL * 5).await;
    assert!(last.is_held(), "renewed for the first one only");
    assert_eq!(store.memory.claims().len(), 1);
    assert_eq!(last.release().await.unwrap(), Released::Released);
    assert!(store.memory.claims().is_empty(), "not given back");
}

#[tokio::test(start_paused = true)]
async fn the_loss_of_the_hold_is_the_loss_of_all() {
    let (store, _, guards) = readers(vec![shared(); 3]).await;
    assert!(store.memory.evict(&LockKey::new("k").unwrap()));
    for guard in &guards {
        assert_eq!(guard.lost().await, LossReason::Removed);
        assert!(!guard.is_held());
    }
    for guard in guards {
        assert_eq!(guard.release().await.unwrap(), Released::AlreadyLost);
    }
}

#[tokio::test(start_paused = true)]
async fn a_limit_of_one_reader_ends_that_one_only() {
    let limit = TTL * 2;
    let limited = shared().holding_at_most(limit);
    let requests = vec![limited.clone(), shared(), limited];
    let (store, _, mut guards) = readers(requests).await;
    let begin = Instant::now();
    for number in [0, 2] {
        assert_eq!(guards[number].lost().await, LossReason::TooLong);
    }
    assert_eq!(begin.elapsed(), limit);
    assert!(guards[1].is_held());
    drop(guards.remove(1));
    // The limited readers still have their guards, but keep no claim.
    sleep(Duration::from_millis(1)).await;
    assert!(store.memory.claims().is_empty(), "not given back");
    let stuck = guards.pop().unwrap();
    assert_eq!(stuck.release().await.unwrap(), Released::AlreadyLost);
}

#[tokio::test(start_paused = true)]
async fn a_reader_that_was_held_too_long_keeps_the_key_closed_for_its_delay() {
    let (limit, delay) = (TTL / 3, TTL);
    let request = shared().with_lock_delay(delay).holding_at_most(limit);
    let (store, _, guards) = readers(vec![request; 2]).await;
    let begin = Instant::now();
    for guard in &guards {
        assert_eq!(guard.lost().await, LossReason::TooLong);
    }
    drop(guards);
    drop(store.memory.lock("k").await.unwrap());
    assert_eq!(begin.elapsed(), limit + delay);
}

#[tokio::test(start_paused = true)]
async fn readers_that_go_before_they_have_their_guard_keep_nothing() {
    let (store, locks) = counted(BUDGET);
    let locks: Arc<dyn DistributedLock> = Arc::new(locks);
    let writer = store.memory.lock("k").await.unwrap();
    let mut waiting = waiting(&locks, vec![shared(); 4]);
    drop(writer);
    let first = granted((&mut waiting[0]).await);
    drop(first);
    assert_eq!(store.memory.claims().len(), 1, "others are to come");
    drop(waiting.split_off(2));
    assert_eq!(store.memory.claims().len(), 1, "another is to come");
    // The last reader is woken, but not polled.
    let begin = Instant::now();
    drop(store.memory.lock("k").await.unwrap());
    assert!(begin.elapsed() <= Duration::from_millis(250));
    let late = granted(waiting.pop().unwrap().await);
    assert!(late.is_held());
}

#[tokio::test(start_paused = true)]
async fn readers_with_another_ttl_or_delay_have_a_claim_of_their_own() {
    let requests = vec![
        shared(),
        shared().with_ttl(TTL * 2),
        shared().with_lock_delay(TTL),
        shared(),
    ];
    let (store, _, guards) = readers(requests).await;
    assert_eq!(store.asked(), 3);
    assert!(guards.iter().all(LockGuard::is_held));
    assert_eq!(grant(guards[0].token()), grant(guards[3].token()));
}

#[tokio::test(start_paused = true)]
async fn a_grant_has_tokens_for_so_many_and_the_rest_claim_anew() {
    const SHARERS: usize = 16_128;
    const READERS: usize = SHARERS + 10;
    let (store, _, guards) = readers(vec![shared(); READERS]).await;
    assert_eq!(store.asked(), 2);
    let first = grant(guards[0].token());
    let shared = guards.iter().filter(|guard| grant(guard.token()) == first);
    assert_eq!(shared.count(), SHARERS);
}

#[tokio::test(start_paused = true)]
async fn a_shutdown_ends_all_of_them() {
    let (store, locks, guards) = readers(vec![shared(); 3]).await;
    locks.shutdown(TTL).await.unwrap();
    for guard in guards {
        assert_eq!(guard.lost().await, LossReason::Closed);
    }
    assert!(store.memory.claims().is_empty());
}

/// If callers keep the holds, no reader depends on the runtime of another reader.
#[test]
fn readers_of_several_runtimes_keep_their_locks_when_one_runtime_ends() {
    use tokio::runtime::Builder;
    let [one, two] = [(); 2].map(|()| {
        Builder::new_multi_thread()
            .worker_threads(1)
            .enable_all()
            .build()
            .unwrap()
    });
    let (store, locks) = counted(BUDGET);
    let locks: Arc<dyn DistributedLock> = Arc::new(locks);
    let other = store.memory.new_client();
    let request = shared().with_ttl(Duration::from_millis(600));
    let writer = two.block_on(other.lock("k")).unwrap();
    let spawn = |runtime: &tokio::runtime::Runtime| {
        let (locks, request) = (Arc::clone(&locks), request.clone());
        let task = runtime.spawn(async move { granted(locks.acquire(request).await) });
        // Let the task begin to wait.
        block_thread(Duration::from_millis(50));
        task
    };
    let (first, second) = (spawn(&one), spawn(&two));
    two.block_on(async { drop(writer) });
    let first = two.block_on(first).unwrap();
    let second = two.block_on(second).unwrap();
    assert!(first.is_held() && second.is_held());
    drop(first);
    drop(one);
    block_thread(Duration::from_secs(1));
    assert!(second.is_held(), "lost: {:?}", second.state());
}
