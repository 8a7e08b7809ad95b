//! Connections that go silent while locks are held.

use lock_core::{DistributedLockExt, LossReason};
use lock_testkit::steady;
use tokio::time::{Instant, timeout};

use crate::bed::{Bed, take};
use crate::{PROMPT, TTL};

#[test]
fn a_client_that_is_cut_off_knows_of_its_loss_before_anybody_gets_in() {
    steady(async || {
        let bed = Bed::new();
        let (locks, other) = (bed.client().await, bed.direct().await);
        let guard = take(&locks, "k").await;
        let token = guard.token();
        bed.proxy.all().hold();
        let lost = async { (guard.lost().await, Instant::now()) };
        let taken = async { (other.lock("k").await.unwrap(), Instant::now()) };
        let both = async { tokio::join!(lost, taken) };
        let both = timeout(TTL * 2 + PROMPT, both).await;
        let ((reason, told), (next, granted)) = both.expect("the lease ends");
        assert_eq!(reason, LossReason::Expired);
        assert!(told < granted, "told {:?} after the grant", told - granted);
        assert!(next.token() > token);
        bed.proxy.all().pass();
    });
}

/// Only the connection for keep-alives is silent: before the first keep-alive, or between two.
#[test]
fn a_silent_stream_of_keep_alives_is_replaced_in_time() {
    steady(async || {
        for kept_alive in [false, true] {
            let bed = Bed::new();
            let locks = bed.client().await;
            let guard = take(&locks, "k").await;
            if kept_alive {
                tokio::time::sleep(TTL / 2).await;
            }
            bed.background().hold();
            tokio::time::sleep(TTL * 2).await;
            assert!(guard.is_held(), "kept alive before: {kept_alive}");
            assert_eq!(bed.keys().len(), 1);
        }
    });
}

#[test]
fn connections_that_are_cut_again_and_again_lose_no_hold() {
    steady(async || {
        let bed = Bed::new();
        let locks = bed.client().await;
        let guard = take(&locks, "k").await;
        let begun = Instant::now();
        while begun.elapsed() < TTL * 2 {
            tokio::time::sleep(TTL / 12).await;
            bed.proxy.all().reset();
        }
        assert!(guard.is_held());
        guard.release().await.unwrap();
        bed.has_keys(0).await;
    });
}
