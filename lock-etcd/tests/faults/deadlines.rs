//! Late answers: a guard never counts on a hold for longer than it lasts.

use std::time::Duration;

use lock_core::DistributedLock;
use lock_testkit::steady;
use tokio::time::Instant;

use crate::bed::{Bed, request};

const TTL: Duration = Duration::from_secs(4);

/// Less than the limit for the answer to a keep-alive.
const DELAY: Duration = Duration::from_millis(500);

#[test]
fn a_grant_counts_from_when_its_lease_was_asked_for() {
    steady(async || {
        let bed = Bed::new();
        let locks = bed.client().await;
        bed.background().to_client().delay(DELAY);
        let request = request("k").with_ttl(TTL);
        let guard = locks.acquire(request).await.unwrap().expect("free");
        let left = guard.remaining();
        assert!(left <= TTL - DELAY, "{left:?} remain");
    });
}

/// A keep-alive takes two answers: of the leader, then of a majority that confirms the leader.
#[test]
fn a_keep_alive_counts_from_when_it_was_sent() {
    steady(async || {
        let bed = Bed::new();
        let locks = bed.client().await;
        let request = request("k").with_ttl(TTL);
        let guard = locks.acquire(request).await.unwrap().expect("free");
        let granted = Instant::now();
        bed.background().to_client().delay(DELAY);
        let mut most = Duration::ZERO;
        while granted.elapsed() < TTL * 3 / 2 {
            tokio::time::sleep(DELAY / 50).await;
            // The first confirmations came before the delay.
            if granted.elapsed() > TTL / 2 {
                most = most.max(guard.remaining());
            }
        }
        assert!(guard.is_held(), "it was not renewed");
        assert!(most <= TTL - 2 * DELAY, "{most:?} remained");
    });
}
