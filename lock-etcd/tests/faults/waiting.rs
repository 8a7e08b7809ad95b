//! Waiters that receive no events.

use std::time::Duration;

use lock_core::{DistributedLock, DistributedLockExt};
use lock_testkit::{eventually, steady};
use tokio::time::{Instant, timeout};

use crate::PROMPT;
use crate::bed::{BRIEFLY, Bed, request, take};

/// The time after which a waiter looks without an event: two seconds, with jitter.
const LOOKS_BY_ITSELF: Duration = Duration::from_secs(1);

/// Too short for a waiter to look without an event, which it does after about two seconds.
const AT_ONCE: Duration = Duration::from_millis(400);

#[test]
fn a_waiter_whose_watch_is_silent_looks_by_itself() {
    steady(async || {
        let bed = Bed::new();
        let (locks, other) = (bed.client().await, bed.direct().await);
        let held = take(&other, "k").await;
        // So long a ttl that no keep-alive is sent, which would notice the silence, too.
        let request = request("k").with_ttl(PROMPT * 6);
        let mut waiting = Box::pin(locks.acquire(request));
        assert!(timeout(BRIEFLY, &mut waiting).await.is_err());
        bed.background().to_client().hold();
        held.release().await.unwrap();
        let guard = timeout(PROMPT, waiting).await.expect("it looks by itself");
        assert!(guard.unwrap().expect("no end").is_held());
    });
}

#[test]
fn a_waiter_sees_what_has_happened_before_its_watch_begins() {
    steady(async || {
        let bed = Bed::new();
        let (locks, other) = (bed.client().await, bed.direct().await);
        let held = take(&other, "k").await;
        let in_line = |key| request(key).with_ttl(PROMPT * 6);
        // The client needs a lease before the proxy delays the background connection.
        let _elsewhere = locks
            .acquire(in_line("elsewhere"))
            .await
            .unwrap()
            .expect("free");
        bed.background().to_server().hold();
        let mut waiting = Box::pin(locks.acquire(in_line("k")));
        assert!(timeout(BRIEFLY, &mut waiting).await.is_err());
        held.release().await.unwrap();
        bed.background().pass();
        let guard = timeout(AT_ONCE, waiting).await.expect("it is told to look");
        assert!(guard.unwrap().expect("no end").is_held());
    });
}

/// The claim before the waiter is deleted, and its key is used again by a claim behind the waiter.
#[test]
fn a_waiter_is_not_misled_by_a_name_that_is_used_again() {
    steady(async || {
        let bed = Bed::new();
        let (locks, other) = (bed.client().await, bed.direct().await);
        let held = take(&other, "k").await;
        let names = bed.keys();
        let in_line = |key| request(key).with_ttl(PROMPT * 6);
        // The client needs a lease before the proxy delays the background connection.
        let elsewhere = locks.acquire(in_line("elsewhere")).await.unwrap();
        elsewhere.expect("free").release().await.unwrap();
        bed.background().to_server().hold();
        let mut waiting = Box::pin(locks.acquire(in_line("k")));
        bed.has_keys_beside(2, &mut waiting).await;
        let released = Instant::now();
        held.release().await.unwrap();
        let mut again = Box::pin(other.acquire(request("k")));
        let both = async {
            tokio::select! {
                _ = &mut waiting => "the waiter",
                _ = &mut again => "whoever came behind it",
            }
        };
        let used_again = async || bed.listed().await.contains(&names[0]);
        tokio::select! {
            who = both => {
                // On a slow disk the waiter looks by itself before its name is used again.
                let waited = released.elapsed();
                assert!(waited > LOOKS_BY_ITSELF, "{who} is granted untold after {waited:?}");
                return;
            }
            () = eventually(PROMPT, "its name is used again", used_again) => {}
        }
        bed.background().pass();
        let guard = timeout(AT_ONCE, waiting).await.expect("it is told to look");
        guard.unwrap().expect("no end").release().await.unwrap();
        let guard = timeout(PROMPT, again).await.expect("its turn");
        assert!(guard.unwrap().expect("no end").is_held());
    });
}

#[test]
fn a_waiter_whose_watch_is_cut_watches_again() {
    steady(async || {
        let bed = Bed::new();
        let (locks, other) = (bed.client().await, bed.direct().await);
        for reset in [false, true] {
            let held = take(&other, "k").await;
            let mut waiting = Box::pin(locks.lock("k"));
            assert!(timeout(BRIEFLY, &mut waiting).await.is_err());
            if reset {
                bed.proxy.all().reset();
            } else {
                bed.proxy.all().cut();
            }
            held.release().await.unwrap();
            let guard = timeout(PROMPT, waiting).await.expect("its turn").unwrap();
            guard.release().await.unwrap();
        }
    });
}

#[test]
fn servers_that_are_slow_at_the_end_of_a_wait_are_not_taken_for_ones_that_are_gone() {
    const WAIT: Duration = Duration::from_millis(1500);
    steady(async || {
        let bed = Bed::new();
        let (locks, other) = (bed.client().await, bed.direct().await);
        let held = take(&other, "k").await;
        let request = request("k").with_ttl(PROMPT * 6).waiting_at_most(WAIT);
        let mut waiting = Box::pin(locks.acquire(request));
        let early = timeout(WAIT - Duration::from_millis(100), &mut waiting).await;
        lock_testkit::assert_excluded!(early.is_err(), "{early:?}");
        bed.proxy.all().hold();
        let answer = timeout(PROMPT, waiting).await.expect("the wait ends");
        assert!(answer.expect("it was held a moment ago").is_none());
        bed.proxy.all().pass();
        held.release().await.unwrap();
    });
}
