//! Grants after a wait, which count from the last confirmation of their session by any request.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use lock_core::{DistributedLock, LockGuard, LockRequest, Mode};
use lock_testkit::steady;
use lock_zookeeper::ZooKeeperLock;
use tokio::task::JoinSet;
use tokio::time::{Instant, sleep, timeout};

use crate::PROMPT;
use crate::bed::{Bed, connect, request, take};
use crate::requests::{MULTI, Requests};

const TTL: Duration = Duration::from_secs(20);

/// An age at which a confirmation is too old for a grant.
const OLD: Duration = Duration::from_millis(400);

/// The delay of answers.
const DELAY: Duration = Duration::from_millis(20);

/// The least by which a hold lasts longer if a busy machine had to confirm its session again.
const ANEW: Duration = Duration::from_millis(150);

fn wanted(key: &str) -> LockRequest {
    request(key, Mode::Exclusive).with_ttl(TTL)
}

/// A hold that was granted without a wait.
struct Fresh {
    guard: LockGuard,
    counts_at_most: Duration,
}

impl Fresh {
    async fn take(locks: &ZooKeeperLock, key: &str) -> Self {
        // Creates the session and the node of the lock.
        let first = take(locks, wanted(key)).await;
        first.release().await.expect("the server runs");
        let begun = Instant::now();
        let guard = take(locks, wanted(key)).await;
        let counts_at_most = guard.remaining() + begun.elapsed();
        Self {
            guard,
            counts_at_most,
        }
    }
}

/// A waiter for a lock that another client holds.
struct Waiter {
    held: LockGuard,
    waiting: JoinSet<lock_core::Result<Option<LockGuard>>>,
}

impl Waiter {
    async fn new(bed: &Bed, others: &ZooKeeperLock, locks: &ZooKeeperLock, key: &str) -> Self {
        let held = take(others, wanted(key)).await;
        let (mut waiting, waiter, request) = (JoinSet::new(), locks.clone(), wanted(key));
        waiting.spawn(async move { waiter.acquire(request).await });
        bed.has(key, 2).await;
        Self { held, waiting }
    }

    async fn let_in(mut self) -> LockGuard {
        self.held.release().await.expect("no fault reaches it");
        let woken = timeout(PROMPT, self.waiting.join_next()).await;
        let guard = woken.expect("it is its turn").expect("it waits");
        let guard = guard.expect("no panic").expect("the server runs");
        guard.expect("no end")
    }
}

#[test]
fn a_claim_confirms_for_a_moment() {
    steady(async || {
        let bed = Bed::new().await;
        let asked = Arc::new(Mutex::new(Vec::new()));
        let asking = Arc::clone(&asked);
        let note = move |kind, _| {
            asking.lock().unwrap().push(kind);
            Box::pin(async { true }) as _
        };
        let requests = Requests::before(bed.server.member(0).port(), Arc::new(note)).await;
        let locks = connect(format!("127.0.0.1:{}", requests.port)).await;
        let others = bed.direct().await;
        let fresh = Fresh::take(&locks, "f").await;
        let waits = async |pause| {
            let waiter = Waiter::new(&bed, &others, &locks, "k").await;
            let confirmed = Instant::now();
            sleep(pause).await;
            asked.lock().unwrap().clear();
            let guard = waiter.let_in().await;
            let is_longer = guard.remaining() + confirmed.elapsed() > fresh.counts_at_most;
            let has_confirmed = asked.lock().unwrap().contains(&MULTI);
            assert_eq!(is_longer, has_confirmed, "after {pause:?}");
            guard.release().await.unwrap();
            has_confirmed
        };
        assert!(waits(OLD).await, "{OLD:?} is too long ago");
        // On a busy machine the confirmation may become too old.
        let mut tries = 0;
        while waits(Duration::from_millis(50)).await {
            tries += 1;
            assert!(tries < 20, "it is confirmed again each time");
        }
        fresh.guard.release().await.unwrap();
    });
}

#[test]
fn a_removal_confirms_from_when_it_was_sent() {
    steady(async || {
        let bed = Bed::new().await;
        let (locks, others) = (bed.client().await, bed.direct().await);
        let fresh = Fresh::take(&locks, "f").await;
        let waiter = Waiter::new(&bed, &others, &locks, "k").await;
        sleep(OLD).await;
        bed.proxy.all().to_client().delay(DELAY);
        let (begun, counts) = (Instant::now(), fresh.counts_at_most);
        fresh.guard.release().await.unwrap();
        let guard = waiter.let_in().await;
        let counted = guard.remaining() + begun.elapsed();
        let more = counted.saturating_sub(counts);
        assert!(more < DELAY / 2 || more > ANEW, "{more:?} more");
        bed.proxy.all().pass();
        guard.release().await.unwrap();
    });
}

#[test]
fn a_look_confirms_others_from_when_it_was_sent() {
    steady(async || {
        let bed = Bed::new().await;
        let (locks, others) = (bed.client().await, bed.direct().await);
        let first = Waiter::new(&bed, &others, &locks, "a").await;
        let second = Waiter::new(&bed, &others, &locks, "b").await;
        sleep(OLD).await;
        bed.proxy.all().to_client().delay(DELAY);
        let first = first.let_in().await;
        let second = second.let_in().await;
        let apart = second.remaining().abs_diff(first.remaining());
        assert!(apart < DELAY / 2 || apart > ANEW, "{apart:?} apart");
        bed.proxy.all().pass();
        first.release().await.unwrap();
        second.release().await.unwrap();
    });
}
