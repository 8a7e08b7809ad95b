//! Reentrant locks of an owner.

mod model;

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::task::{Context, Waker};
use std::time::Duration;

use async_trait::async_trait;
use lock_core::backend::{Keeper, Released};
use lock_core::{
    Capabilities, DistributedLock, DistributedLockExt, ErrorKind, HandOff, LockGuard, LockKey,
    LockRequest, LossReason, MemoryLock, Mode, Owner, Result, Wait,
};
use tokio::time::{sleep, timeout};

const SECOND: Duration = Duration::from_secs(1);
const LIMIT: Duration = Duration::from_secs(20);

/// A client that counts the requests to its store.
#[derive(Debug)]
struct Counted(MemoryLock, AtomicUsize);

impl Counted {
    fn new() -> Self {
        Self(MemoryLock::new(), AtomicUsize::new(0))
    }
}

#[async_trait]
impl DistributedLock for Counted {
    fn capabilities(&self) -> Capabilities {
        self.0.capabilities()
    }

    fn keeper(&self) -> Option<&Keeper> {
        self.0.keeper()
    }

    async fn acquire(&self, request: LockRequest) -> Result<Option<LockGuard>> {
        self.1.fetch_add(1, Ordering::SeqCst);
        self.0.acquire(request).await
    }
}

fn key(name: &str) -> LockKey {
    LockKey::new(name).expect("a key")
}

fn request(mode: Mode) -> LockRequest {
    LockRequest::new(key("k"), mode)
}

fn exclusive(owner: &Owner) -> LockRequest {
    request(Mode::Exclusive).for_owner(owner)
}

/// Returns clients of one store, with and without hand-off.
fn clients(store: &MemoryLock) -> [Arc<dyn DistributedLock>; 2] {
    let plain = store.new_client();
    let budget = HandOff::DEFAULT_BUDGET;
    let queued = HandOff::new(Arc::new(store.new_client()), budget);
    [Arc::new(plain), Arc::new(queued)]
}

async fn take(locks: &dyn DistributedLock, request: LockRequest) -> LockGuard {
    let taking = timeout(LIMIT, locks.acquire(request)).await;
    taking
        .expect("in time")
        .expect("an answer")
        .expect("no limit")
}

#[tokio::test]
async fn an_owner_enters_its_grant_without_asking_the_store() {
    let counted = Arc::new(Counted::new());
    let locks = HandOff::new(
        Arc::<Counted>::clone(&counted) as Arc<dyn DistributedLock>,
        HandOff::DEFAULT_BUDGET,
    );
    let owner = Owner::new();
    let outer = take(&locks, exclusive(&owner)).await;
    for wait in [Wait::No, Wait::within(SECOND), Wait::Forever] {
        let inner = take(&locks, exclusive(&owner).with_wait(wait)).await;
        assert_eq!(inner.token(), outer.token());
        assert_eq!(inner.release().await.unwrap(), Released::Released);
    }
    assert_eq!(counted.1.load(Ordering::SeqCst), 1);
    let stranger = locks.acquire(request(Mode::Exclusive).without_waiting());
    assert!(stranger.await.unwrap().is_none());
    let other = exclusive(&Owner::new()).without_waiting();
    assert!(locks.acquire(other).await.unwrap().is_none());
}

#[tokio::test]
async fn the_last_guard_frees_the_key_in_whatever_order_they_end() {
    let store = MemoryLock::new();
    for locks in clients(&store) {
        for order in [[0, 1, 2], [2, 1, 0], [1, 0, 2], [0, 2, 1]] {
            let owner = Owner::new();
            let mut guards = Vec::new();
            for _ in 0..3 {
                guards.push(Some(take(&*locks, exclusive(&owner)).await));
            }
            for (ended, number) in order.into_iter().enumerate() {
                assert!(store.try_lock("k").await.unwrap().is_none());
                let guard = guards[number].take().expect("each ends once");
                assert!(guard.is_held());
                if ended % 2 == 0 {
                    assert_eq!(guard.release().await.unwrap(), Released::Released);
                } else {
                    drop(guard);
                }
            }
            let next = locks.try_lock("k").await.unwrap();
            drop(next.expect("free after the last one"));
        }
    }
}

#[tokio::test(start_paused = true)]
async fn inner_guards_are_renewed_and_lost_with_the_grant() {
    let store = MemoryLock::new();
    for locks in clients(&store) {
        let owner = Owner::new();
        let outer = take(&*locks, exclusive(&owner).with_ttl(SECOND)).await;
        let inner = take(&*locks, exclusive(&owner)).await;
        drop(outer);
        sleep(10 * SECOND).await;
        assert!(inner.is_held(), "not renewed with the grant");
        let innermost = take(&*locks, exclusive(&owner)).await;
        assert!(store.evict(&key("k")));
        assert_eq!(inner.lost().await, LossReason::Removed);
        assert_eq!(innermost.lost().await, LossReason::Removed);
        // The lost grant is not entered.
        let again = take(&*locks, exclusive(&owner)).await;
        assert!(again.token() > inner.token());
        assert_eq!(innermost.release().await.unwrap(), Released::AlreadyLost);
        assert!(again.is_held());
    }
}

#[tokio::test]
#[expect(clippy::disallowed_methods, reason = "the thread is to stand still")]
async fn a_grant_that_expired_unnoticed_is_not_entered() {
    for locks in clients(&MemoryLock::new()) {
        let owner = Owner::new();
        let outer = take(&*locks, exclusive(&owner).with_ttl(SECOND / 4)).await;
        std::thread::sleep(SECOND / 2);
        let again = take(&*locks, exclusive(&owner)).await;
        assert!(again.is_held() && again.token() > outer.token());
    }
}

/// The readers of a process share one grant, and each may be the grant of an owner.
#[tokio::test(start_paused = true)]
async fn an_owner_enters_its_share_of_a_grant() {
    let store = MemoryLock::new();
    let locks = HandOff::new(Arc::new(store.new_client()), HandOff::DEFAULT_BUDGET);
    let writer = store.lock("k").await.unwrap();
    let owners = [Owner::new(), Owner::new()];
    let shared = |owner: &Owner| request(Mode::Shared).for_owner(owner).with_ttl(SECOND);
    let (first, second, ()) = tokio::join!(
        take(&locks, shared(&owners[0])),
        take(&locks, shared(&owners[1])),
        async {
            sleep(SECOND).await;
            drop(writer);
        }
    );
    assert_eq!(store.claims().len(), 1, "one grant for both");
    let inner = take(&locks, shared(&owners[1])).await;
    assert_eq!(inner.token(), second.token());
    drop((first, second));
    sleep(10 * SECOND).await;
    assert!(inner.is_held(), "not renewed with the shared grant");
    assert_eq!(inner.release().await.unwrap(), Released::Released);
    assert_eq!(store.claims(), [""; 0]);
}

#[tokio::test]
async fn more_than_the_grant_is_unsupported() {
    let store = MemoryLock::new();
    for locks in clients(&store) {
        let owner = Owner::new();
        let outer = take(&*locks, exclusive(&owner)).await;
        for (more, hint) in [
            (request(Mode::Shared), "ask for it exclusively"),
            (request(Mode::permit(2).unwrap()), "in the same mode"),
            (
                request(Mode::Exclusive).with_lock_delay(SECOND),
                "set it in the outer request",
            ),
            (
                request(Mode::Exclusive).holding_at_least(SECOND),
                "set it in the outer request",
            ),
        ] {
            let error = locks.acquire(more.for_owner(&owner)).await.unwrap_err();
            assert_eq!(error.kind(), ErrorKind::Unsupported);
            assert!(error.to_string().contains(hint), "{error}");
            assert!(error.to_string().contains("memory"), "{error}");
        }
        assert!(outer.is_held());
        drop(outer);
        let reader = take(&*locks, request(Mode::Shared).for_owner(&owner)).await;
        let error = locks.acquire(exclusive(&owner)).await.unwrap_err();
        assert!(error.to_string().contains("take it exclusively"), "{error}");
        reader.release().await.unwrap();
    }
}

#[tokio::test(start_paused = true)]
async fn a_maximum_hold_ends_its_own_guard_only() {
    let store = MemoryLock::new();
    for locks in clients(&store) {
        let owner = Owner::new();
        let short = exclusive(&owner).holding_at_most(SECOND);
        let outer = take(&*locks, short.clone()).await;
        sleep(SECOND / 2).await;
        let middle = take(&*locks, exclusive(&owner)).await;
        let inner = take(&*locks, short).await;
        assert_eq!(outer.lost().await, LossReason::TooLong);
        assert!(middle.is_held() && inner.is_held());
        assert_eq!(inner.lost().await, LossReason::TooLong);
        assert!(middle.is_held());
        assert!(store.try_lock("k").await.unwrap().is_none());
    }
}

/// Two tasks of one owner ask at the same time, and the second does not wait for the first one's
/// release.
#[tokio::test]
async fn tasks_of_one_owner_do_not_wait_for_each_other() {
    let store = MemoryLock::new();
    for locks in clients(&store) {
        let other = store.lock("k").await.unwrap();
        let owner = Owner::new();
        let (first, second, ()) = tokio::join!(
            take(&*locks, exclusive(&owner)),
            take(&*locks, exclusive(&owner)),
            async {
                while store.claims().len() < 2 {
                    sleep(Duration::from_millis(1)).await;
                }
                drop(other);
            }
        );
        assert_eq!(first.token(), second.token());
        assert!(first.is_held() && second.is_held());
        drop(first);
        assert!(second.is_held());
        second.release().await.unwrap();
        assert_eq!(store.claims(), [""; 0]);
    }
}

/// A request of the owner that is not polled does not keep another one of it from the key.
#[tokio::test]
async fn an_unpolled_request_does_not_block_its_owner() {
    let store = MemoryLock::new();
    for locks in clients(&store) {
        let other = store.lock("k").await.unwrap();
        let owner = Owner::new();
        let mut unpolled = Box::pin(locks.acquire(exclusive(&owner)));
        let mut context = Context::from_waker(Waker::noop());
        assert!(unpolled.as_mut().poll(&mut context).is_pending());
        drop(other);
        let guard = take(&*locks, exclusive(&owner)).await;
        let late = unpolled.await.unwrap().expect("no limit");
        assert!(guard.is_held() && late.is_held());
        assert_eq!(late.token(), guard.token());
    }
}

#[tokio::test]
async fn sets_and_work_under_a_lock_are_reentrant() {
    let client = clients(&MemoryLock::new())[1].clone();
    let locks = client.with_owner(&Owner::new());
    let outer = locks.lock("b").await.unwrap();
    let set = locks.lock_all(["a", "b", "c"]).await.unwrap();
    assert_eq!(set.token("b"), Some(outer.token()));
    let inner = LockRequest::exclusive("c").unwrap();
    let token = locks
        .with_lock(inner, async |held| held.token())
        .await
        .unwrap();
    assert_eq!(token, set.token("c"));
    drop(set);
    assert!(outer.is_held());
    assert!(client.try_lock("a").await.unwrap().is_some());
    assert!(client.try_lock("b").await.unwrap().is_none());
}
