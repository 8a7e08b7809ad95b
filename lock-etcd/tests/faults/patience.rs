//! Waits without a limit on servers that answer nothing, or only other requests.

use std::time::Duration;

use lock_core::{DistributedLock, DistributedLockExt, ErrorKind};
use lock_testkit::steady;
use tokio::task::JoinSet;
use tokio::time::{Instant, timeout};

use crate::PROMPT;
use crate::bed::{Bed, request, take};

/// The silence that a wait without a limit outlasts.
const PATIENCE: Duration = Duration::from_secs(30);

/// The waiters of one client ask one after the other, but their limits do not add up.
#[test]
fn those_in_line_behind_others_give_up_after_their_own_half_a_minute() {
    steady(async || {
        let bed = Bed::new();
        let locks = bed.client().await;
        take(&locks, "warm").await.release().await.unwrap();
        bed.proxy.all().hold();
        let begun = Instant::now();
        let mut waiting = JoinSet::new();
        for _ in 0..80 {
            let locks = locks.clone();
            waiting.spawn(async move { locks.lock("k").await });
        }
        while let Some(outcome) = timeout(PATIENCE * 3, waiting.join_next()).await.unwrap() {
            let error = outcome.unwrap().unwrap_err();
            assert_eq!(error.kind(), ErrorKind::Unavailable, "{error}");
            let waited = begun.elapsed();
            assert!(waited < PATIENCE + PROMPT, "after {waited:?}: {error}");
        }
        bed.proxy.all().pass();
    });
}

/// The servers answer, but later than a third of the ttl.
#[test]
fn a_wait_whose_ttl_is_short_for_the_way_to_the_servers_ends_with_an_error() {
    for delay in [200, 450] {
        steady(async || {
            let bed = Bed::new();
            let locks = bed.client().await;
            let _held = take(&locks, "other").await;
            bed.proxy
                .all()
                .to_client()
                .delay(Duration::from_millis(delay));
            let others = locks.clone();
            let mut answered = JoinSet::new();
            // Requests with a long ttl, which are answered in time.
            answered.spawn(async move {
                loop {
                    let guard = others.lock("another").await.expect("it is answered");
                    guard.release().await.expect("it is answered");
                }
            });
            let request = request("k").with_ttl(Duration::from_secs(1));
            let outcome = timeout(PATIENCE * 2, locks.acquire(request)).await;
            let error = outcome.expect("it ends").unwrap_err();
            assert_eq!(error.kind(), ErrorKind::Unavailable, "{error}");
            assert!(error.to_string().contains("longer ttl"), "{error}");
            answered.abort_all();
        });
    }
}
