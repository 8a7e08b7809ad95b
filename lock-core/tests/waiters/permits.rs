//! Permits: one claim per holder, and one claim that waits.

use std::num::NonZeroU32;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use crate::support::{acquire, counted, granted, poll};
use lock_core::{DistributedLock, DistributedLockExt, LockRequest};
use lock_testkit::assert_excluded;
use tokio::task::JoinSet;
use tokio::time::sleep;

const LONG_BUDGET: Duration = Duration::from_secs(3600);

fn permit(of: u32) -> LockRequest {
    LockRequest::permit("k", of).expect("one at least")
}

#[tokio::test(start_paused = true)]
async fn permits_come_in_order_and_one_claim_waits() {
    let (store, locks) = counted(LONG_BUDGET);
    let locks: Arc<dyn DistributedLock> = Arc::new(locks);
    let first = locks.permit("k", 1).await.unwrap();
    let mut waiting: Vec<_> = (0..50).map(|_| acquire(&locks, permit(1))).collect();
    for waiter in &mut waiting {
        assert!(poll(waiter).is_none());
    }
    assert_eq!(store.memory.claims().len(), 2);
    let mut last = first.token();
    drop(first);
    for waiter in waiting {
        let guard = granted(waiter.await);
        assert!(guard.token() > last);
        last = guard.token();
    }
    sleep(Duration::from_secs(1)).await;
    assert!(store.memory.claims().is_empty());
}

#[tokio::test(start_paused = true)]
async fn many_permits_are_held_together_and_never_too_many() {
    let of = NonZeroU32::new(7).unwrap();
    let (store, locks) = counted(Duration::from_millis(10));
    let (inside, most) = (Arc::new(AtomicUsize::new(0)), Arc::new(AtomicUsize::new(0)));
    let mut tasks = JoinSet::new();
    for task in 0..40_u64 {
        let (locks, inside, most) = (locks.clone(), Arc::clone(&inside), Arc::clone(&most));
        tasks.spawn(async move {
            for turn in 0..20_u64 {
                let guard = locks.permit("k", of.get()).await.unwrap();
                let now = inside.fetch_add(1, Ordering::SeqCst) + 1;
                assert_excluded!(now <= of.get() as usize, "{now} permits");
                most.fetch_max(now, Ordering::SeqCst);
                sleep(Duration::from_millis((task * 7 + turn * 3) % 5)).await;
                inside.fetch_sub(1, Ordering::SeqCst);
                drop(guard);
            }
        });
    }
    while let Some(ended) = tasks.join_next().await {
        ended.unwrap();
    }
    assert_eq!(most.load(Ordering::SeqCst), of.get() as usize);
    assert!(store.memory.claims().is_empty());
}

#[tokio::test(start_paused = true)]
async fn a_waiter_that_goes_leaves_its_claim_and_its_permit_to_the_others() {
    let (store, locks) = counted(LONG_BUDGET);
    let locks: Arc<dyn DistributedLock> = Arc::new(locks);
    let first = locks.permit("k", 1).await.unwrap();
    let mut waiting: Vec<_> = (0..3).map(|_| acquire(&locks, permit(1))).collect();
    for waiter in &mut waiting {
        assert!(poll(waiter).is_none());
    }
    drop(waiting.remove(0));
    assert!(poll(&mut waiting[0]).is_none());
    drop(first);
    // The claim of the first waiter is granted, but the waiter is dropped before its next poll.
    drop(waiting.remove(0));
    let last = granted(waiting.remove(0).await);
    assert!(last.is_held());
    last.release().await.unwrap();
    assert!(store.memory.claims().is_empty());
}

/// The token also grows if the permit of an earlier holder is free again.
#[tokio::test(start_paused = true)]
async fn the_token_of_a_permit_is_greater_than_those_of_all_before() {
    let (_store, locks) = counted(LONG_BUDGET);
    let locks: Arc<dyn DistributedLock> = Arc::new(locks);
    let one = locks.permit("k", 2).await.unwrap();
    let two = locks.permit("k", 2).await.unwrap();
    // Requested while both permits are held.
    let mut third = acquire(&locks, permit(2));
    assert!(poll(&mut third).is_none());
    drop(one);
    let third = granted(third.await);
    assert!(two.is_held());
    assert!(
        third.token() > two.token(),
        "{:?} after {:?}",
        third.token(),
        two.token()
    );
}
