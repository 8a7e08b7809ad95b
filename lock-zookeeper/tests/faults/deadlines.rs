//! Silent networks: a holder knows of its loss before the next grant.
//!
//! A lost connection alone ends no hold.

use std::time::Duration;

use lock_core::{DistributedLock, DistributedLockExt, LossReason, Mode};
use lock_testkit::steady;
use tokio::time::{Instant, sleep, timeout};

use crate::PROMPT;
use crate::bed::{Bed, modes, request, take};

const TTL: Duration = Duration::from_secs(4);

#[test]
fn a_silent_network_ends_a_hold_before_the_next_one_gets_it() {
    steady(async || {
        let bed = Bed::new().await;
        let (locks, others) = (bed.client().await, bed.direct().await);
        for mode in modes() {
            let guard = take(&locks, request("k", mode).with_ttl(TTL)).await;
            let waiting = others.acquire(request("k", Mode::Exclusive));
            bed.proxy.all().hold();
            let begun = Instant::now();
            let lost = async {
                assert_eq!(guard.lost().await, LossReason::Expired);
                Instant::now()
            };
            let granted = async {
                let next = waiting.await.expect("no fault reaches it").expect("no end");
                (Instant::now(), next)
            };
            let both = timeout(3 * TTL, async { tokio::join!(lost, granted) }).await;
            let (lost, (granted, next)) = both.expect("the session ends");
            assert!(
                lost < granted,
                "{mode:?} held by two for {:?}",
                lost - granted
            );
            let took = granted - begun;
            assert!(took < TTL + Duration::from_secs(2), "{mode:?}: {took:?}");
            assert!(guard.token() < next.token());
            bed.proxy.all().pass();
            next.release().await.unwrap();
            drop(guard);
            bed.has("k", 0).await;
        }
    });
}

#[test]
fn a_grant_and_its_renewals_count_from_when_they_were_sent() {
    steady(async || {
        const DELAY: Duration = Duration::from_millis(300);
        let bed = Bed::new().await;
        let locks = bed.client().await;
        for mode in modes() {
            // Creates the session and the node of the lock.
            let wanted = request("k", mode).with_ttl(TTL);
            take(&locks, wanted.clone()).await.release().await.unwrap();
            bed.proxy.all().to_client().delay(DELAY);
            let guard = take(&locks, wanted).await;
            let begun = Instant::now();
            while begun.elapsed() < TTL {
                // Holds do not count on a quarter of the ttl, since a server may not have sent the
                // leader the last heartbeats.
                let left = guard.remaining();
                assert!(left <= TTL * 3 / 4 - DELAY, "{mode:?}: {left:?}");
                assert!(guard.is_held(), "{mode:?} is not renewed");
                sleep(Duration::from_millis(5)).await;
            }
            bed.proxy.all().pass();
            guard.release().await.unwrap();
        }
    });
}

#[test]
fn half_a_ttl_of_silence_and_any_number_of_cuts_cost_nothing() {
    steady(async || {
        let bed = Bed::new().await;
        let locks = bed.client().await;
        let guard = take(&locks, request("k", Mode::Exclusive).with_ttl(TTL)).await;
        for round in 0..10 {
            bed.proxy.all().cut();
            sleep(TTL / 10).await;
            assert!(guard.is_held(), "lost by the {round}th cut");
        }
        bed.proxy.all().hold();
        sleep(TTL * 3 / 10).await;
        bed.proxy.all().pass();
        sleep(TTL * 3 / 2).await;
        assert!(guard.is_held(), "lost by a silence of 0.3 ttl");
        lock_testkit::assert_excluded!(bed.direct().await.try_lock("k").await.unwrap().is_none());
        guard.release().await.unwrap();
    });
}

#[test]
fn requests_end_in_time_on_a_silent_network() {
    steady(async || {
        let bed = Bed::new().await;
        let locks = bed.client().await;
        let held = locks.lock("held").await.unwrap();
        bed.proxy.all().hold();
        let begun = Instant::now();
        let tried = locks.try_lock("k").await;
        assert!(tried.is_err_and(|error| error.is_retryable()));
        assert!(
            begun.elapsed() < Duration::from_secs(3),
            "{:?}",
            begun.elapsed()
        );
        let begun = Instant::now();
        let waited = locks.lock_within("held", Duration::from_secs(1)).await;
        assert!(waited.is_err_and(|error| error.is_retryable()));
        assert!(
            begun.elapsed() < Duration::from_secs(3),
            "{:?}",
            begun.elapsed()
        );
        let begun = Instant::now();
        assert!(
            held.release()
                .await
                .is_err_and(|error| error.is_retryable())
        );
        assert!(
            begun.elapsed() < Duration::from_secs(2),
            "{:?}",
            begun.elapsed()
        );
        bed.proxy.all().pass();
        bed.has("held", 0).await;
        bed.has("k", 0).await;
        let again = timeout(PROMPT, locks.lock("k")).await.expect("in time");
        again.unwrap().release().await.unwrap();
    });
}
