//! Several keys under one guard.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Waker};
use std::time::Duration;

use async_trait::async_trait;
use lock_core::backend::Released;
use lock_core::{
    Capabilities, DistributedLock, DistributedLockExt, ErrorKind, HandOff, LockGuard, LockKey,
    LockRequest, LossReason, MemoryLock, Mode, Result, Wait,
};
use tokio::task::JoinSet;
use tokio::time::{Instant, sleep, timeout};

const SECOND: Duration = Duration::from_secs(1);

/// Two stores behind one service: keys that begin with `a` are on the first.
#[derive(Debug)]
struct Two(MemoryLock, MemoryLock);

#[async_trait]
impl DistributedLock for Two {
    fn capabilities(&self) -> Capabilities {
        self.0.capabilities()
    }

    async fn acquire(&self, request: LockRequest) -> Result<Option<LockGuard>> {
        let store = match request.key.as_str().starts_with('a') {
            true => &self.0,
            false => &self.1,
        };
        store.acquire(request).await
    }
}

fn key(name: &str) -> LockKey {
    LockKey::new(name).expect("a key")
}

#[tokio::test]
async fn a_set_has_each_key_once_in_order_with_its_token() {
    let locks = MemoryLock::new();
    let set = locks.lock_all(["b", "a", "b"]).await.unwrap();
    let keys: Vec<_> = set.keys().map(LockKey::as_str).collect();
    assert_eq!(keys, ["a", "b"]);
    let tokens: Vec<_> = set.tokens().map(|(_, token)| token).collect();
    assert!(tokens[0] < tokens[1]);
    assert_eq!(set.token("b"), Some(tokens[1]));
    assert_eq!(set.token("c"), None);
    assert!(set.is_held() && set.remaining() > SECOND);
    assert_eq!(set.release().await.unwrap(), Released::Released);
    assert_eq!(locks.claims(), [""; 0]);
}

#[tokio::test]
async fn a_set_without_keys_is_held() {
    let locks = MemoryLock::new();
    let set = locks.try_lock_all([""; 0]).await.unwrap().unwrap();
    assert!(set.is_held());
    assert_eq!(set.remaining(), Duration::MAX);
    assert_eq!(set.release().await.unwrap(), Released::Released);
}

#[tokio::test(start_paused = true)]
async fn a_set_is_taken_whole_or_not_at_all() {
    let locks = MemoryLock::new();
    let other = locks.lock("c").await.unwrap();
    assert!(locks.try_lock_all(["a", "b", "c"]).await.unwrap().is_none());
    assert_eq!(locks.claims().len(), 1, "only the other one");
    let began = Instant::now();
    let within = locks.lock_all_within(["a", "b", "c"], SECOND).await;
    assert!(within.unwrap().is_none());
    assert_eq!(began.elapsed(), SECOND);
    assert_eq!(locks.claims().len(), 1, "only the other one");
    let (set, ()) = tokio::join!(locks.lock_all(["a", "b", "c"]), async {
        sleep(SECOND).await;
        drop(other);
    });
    assert!(set.unwrap().is_held());
}

/// The wait for the second key takes up most of the limit, and the third gets only the rest.
#[tokio::test(start_paused = true)]
async fn all_keys_share_one_limit() {
    let locks = MemoryLock::new();
    let (second, third) = (
        locks.lock("b").await.unwrap(),
        locks.lock("c").await.unwrap(),
    );
    let began = Instant::now();
    let (set, ()) = tokio::join!(locks.lock_all_within(["a", "b", "c"], SECOND), async {
        sleep(SECOND * 3 / 4).await;
        drop(second);
    });
    assert!(set.unwrap().is_none());
    assert_eq!(began.elapsed(), SECOND);
    drop(third);
}

#[tokio::test]
async fn requests_in_other_modes_and_of_one_key_in_two_ways() {
    let locks = MemoryLock::new();
    let request = |name, mode| LockRequest::new(key(name), mode);
    let mixed = [request("b", Mode::Shared), request("a", Mode::Exclusive)];
    let set = locks.acquire_all(mixed, Wait::No).await.unwrap().unwrap();
    assert!(locks.try_lock_shared("b").await.unwrap().is_some());
    assert!(locks.try_lock_shared("a").await.unwrap().is_none());
    drop(set);
    let twice = [request("a", Mode::Shared), request("a", Mode::Exclusive)];
    let error = locks.acquire_all(twice, Wait::No).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Config);
    assert!(error.to_string().contains("in two ways"), "{error}");
    let error = locks.lock_all(["a", ""]).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::InvalidKey);
}

#[tokio::test]
async fn the_loss_of_one_is_the_loss_of_the_set() {
    let locks = MemoryLock::new();
    let request = |name| LockRequest::new(key(name), Mode::Exclusive).with_ttl(SECOND / 4);
    let requests = [request("a"), request("b")];
    let set = locks
        .acquire_all(requests, Wait::No)
        .await
        .unwrap()
        .unwrap();
    locks.evict(&key("b"));
    assert_eq!(set.lost().await, (&key("b"), LossReason::Removed));
    assert!(!set.is_held());
    assert_eq!(set.remaining(), Duration::ZERO);
    assert_eq!(set.release().await.unwrap(), Released::AlreadyLost);
    assert_eq!(locks.claims(), [""; 0]);
}

#[tokio::test]
async fn a_wait_that_outlasts_an_earlier_key_begins_anew() {
    let locks = MemoryLock::new();
    let other = locks.lock("b").await.unwrap();
    let request = |name| LockRequest::new(key(name), Mode::Exclusive).with_ttl(SECOND / 4);
    let taking = locks.acquire_all([request("a"), request("b")], Wait::Forever);
    let (set, ()) = tokio::join!(taking, async {
        while locks.claims().len() < 3 {
            sleep(Duration::from_millis(1)).await;
        }
        locks.evict(&key("a"));
        let again = async {
            while locks.claims().len() < 3 {
                sleep(Duration::from_millis(1)).await;
            }
        };
        let taken = timeout(10 * SECOND, again).await;
        taken.expect("the lost key is taken again, while the other one is held");
        drop(other);
    });
    assert!(set.unwrap().expect("no limit").is_held());
    assert_eq!(locks.claims(), [""; 0]);
}

/// Blocks the thread of its caller once, for the acquisition of `b`.
#[derive(Debug)]
struct Blocking(MemoryLock, AtomicBool);

#[async_trait]
impl DistributedLock for Blocking {
    fn capabilities(&self) -> Capabilities {
        self.0.capabilities()
    }

    #[expect(clippy::disallowed_methods, reason = "the thread is to stand still")]
    async fn acquire(&self, request: LockRequest) -> Result<Option<LockGuard>> {
        if request.key.as_str() == "b" && !self.1.swap(true, Ordering::SeqCst) {
            std::thread::sleep(SECOND / 2);
        }
        self.0.acquire(request).await
    }
}

#[tokio::test]
async fn a_lock_that_expires_unnoticed_while_the_set_is_taken_is_taken_again() {
    let locks = Blocking(MemoryLock::new(), AtomicBool::new(false));
    let request = |name| LockRequest::new(key(name), Mode::Exclusive).with_ttl(SECOND / 4);
    let taken = locks.acquire_all([request("a"), request("b")], Wait::Forever);
    assert!(taken.await.unwrap().expect("no limit").is_held());
    let locks = Blocking(MemoryLock::new(), AtomicBool::new(false));
    let taken = locks.acquire_all([request("a"), request("b")], Wait::No);
    let error = taken.await.expect_err("one lock has expired");
    assert_eq!(error.kind(), ErrorKind::Unavailable);
    assert!(error.to_string().contains("use a longer ttl"), "{error}");
}

#[tokio::test]
async fn nothing_is_left_on_one_store_if_the_other_fails() {
    let locks = Two(MemoryLock::new(), MemoryLock::new());
    locks.1.shutdown(SECOND).await.unwrap();
    let error = locks.lock_all(["a", "b"]).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Closed);
    assert_eq!(locks.0.claims(), [""; 0]);
}

#[tokio::test]
async fn dropped_at_every_poll_it_leaves_nothing() {
    let locks = MemoryLock::new();
    for polls in 1..20 {
        let other = locks.lock("c").await.unwrap();
        let mut taking = Box::pin(locks.lock_all(["a", "b", "c", "d"]));
        let mut other = Some(other);
        for poll in 0..polls {
            if poll == polls / 2 {
                drop(other.take());
            }
            let mut context = Context::from_waker(Waker::noop());
            if taking.as_mut().poll(&mut context).is_ready() {
                break;
            }
            tokio::task::yield_now().await;
        }
        drop((taking, other));
        assert_eq!(locks.claims(), [""; 0], "dropped after {polls} polls");
    }
}

/// `LOCK_SETS` is the number of acquisitions. Default: 4,000.
#[tokio::test(flavor = "multi_thread")]
async fn many_tasks_on_random_subsets_never_wait_in_a_circle() {
    const NAMES: [&str; 8] = ["a1", "a2", "a3", "a4", "b1", "b2", "b3", "b4"];
    let times = std::env::var("LOCK_SETS").map_or(4_000, |times| times.parse().expect("a number"));
    let stores = Two(MemoryLock::new(), MemoryLock::new());
    let [first, second] = [&stores.0, &stores.1].map(MemoryLock::clone);
    let locks = Arc::new(HandOff::new(Arc::new(stores), HandOff::DEFAULT_BUDGET));
    let inside = Arc::new([const { AtomicBool::new(false) }; 8]);
    let mut tasks = JoinSet::new();
    for task in 0..64 {
        let (locks, inside) = (Arc::clone(&locks), Arc::clone(&inside));
        tasks.spawn(async move {
            let mut random = fastrand::Rng::with_seed(task);
            for _ in 0..times / 64 {
                let mut numbers: Vec<usize> = (0..8).filter(|_| random.bool()).collect();
                random.shuffle(&mut numbers);
                let set = locks.lock_all(numbers.iter().map(|number| NAMES[*number]));
                let set = set.await.unwrap();
                for number in &numbers {
                    let was_inside = inside[*number].swap(true, Ordering::SeqCst);
                    assert!(!was_inside, "two holders of {}", NAMES[*number]);
                }
                tokio::task::yield_now().await;
                assert!(set.is_held());
                for number in &numbers {
                    inside[*number].store(false, Ordering::SeqCst);
                }
                set.release().await.unwrap();
            }
        });
    }
    while let Some(end) = tasks.join_next().await {
        end.expect("no panic");
    }
    assert_eq!(first.claims(), [""; 0]);
    assert_eq!(second.claims(), [""; 0]);
}

/// A client that is shut down while a set waits for the answer about its second key.
#[derive(Debug)]
struct ShutDownAtB(MemoryLock);

#[async_trait]
impl DistributedLock for ShutDownAtB {
    fn capabilities(&self) -> Capabilities {
        self.0.capabilities()
    }

    async fn acquire(&self, request: LockRequest) -> Result<Option<LockGuard>> {
        if request.key.as_str() == "b" {
            self.0.shutdown(Duration::from_secs(60)).await?;
            std::future::pending::<()>().await;
        }
        self.0.acquire(request).await
    }
}

#[tokio::test]
async fn a_set_of_a_client_that_is_shut_down_says_so() {
    let locks = ShutDownAtB(MemoryLock::new());
    let error = locks.try_lock_all(["a", "b"]).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Closed, "{error}");
}
