//! Servers and networks that are slow: nobody believes in a lock for longer than it lasts.

use std::time::Duration;

use lock_core::{DistributedLock, ErrorKind};
use lock_mysql::MySqlHold;
use lock_testkit::servers::SqlVendor;
use lock_testkit::steady;
use tokio::time::Instant;

use crate::bed::{BOTH, Bed, modes, request, take, take_and_release};

#[test]
fn a_grant_counts_from_when_its_request_was_sent() {
    steady(async || {
        const TTL: Duration = Duration::from_secs(6);
        const DELAY: Duration = Duration::from_millis(600);
        let bed = Bed::new(SqlVendor::MariaDb);
        for hold in BOTH {
            let locks = bed.client(hold).await;
            for mode in modes(hold) {
                let request = request(&format!("{hold:?} {mode:?}"), mode, TTL);
                take_and_release(&locks, &request).await;
                bed.proxy.all().to_client().delay(DELAY);
                let begun = Instant::now();
                let guard = locks
                    .acquire(request)
                    .await
                    .expect("it runs")
                    .expect("free");
                let (took, left) = (begun.elapsed(), guard.remaining());
                assert!(took >= DELAY, "{took:?}");
                // The last packet was sent a delay ago, whatever was asked before it.
                assert!(
                    left <= TTL - DELAY,
                    "{hold:?} {mode:?}: {left:?} after {took:?}"
                );
                bed.proxy.all().pass();
                guard.release().await.expect("it runs");
            }
        }
    });
}

#[test]
fn a_lease_that_cannot_be_renewed_is_lost_before_anybody_else_gets_in() {
    steady(async || {
        const TTL: Duration = Duration::from_secs(2);
        let bed = Bed::new(SqlVendor::MariaDb);
        for hold in BOTH {
            let (locks, other) = (bed.client(hold).await, bed.direct(hold).await);
            let request = request(&format!("{hold:?}"), lock_core::Mode::Exclusive, TTL);
            let guard = take(&locks, &request).await;
            bed.proxy.all().hold();
            let next = take(&other, &request).await;
            lock_testkit::assert_excluded!(!guard.is_held(), "{hold:?}");
            assert!(next.token() > guard.token());
            let refused = locks.acquire(request).await;
            let error = refused.expect_err("unreachable is not busy");
            assert_eq!(error.kind(), ErrorKind::Unavailable, "{error}");
            bed.proxy.all().pass();
            assert!(next.is_held());
            next.release().await.expect("it runs");
            bed.empties().await;
        }
    });
}

#[test]
fn a_request_that_is_cut_off_anywhere_leaves_nothing_and_repeats_no_token() {
    steady(async || {
        let bed = Bed::new(SqlVendor::MariaDb);
        for hold in [MySqlHold::Lease, MySqlHold::Row] {
            let locks = bed.client(hold).await;
            for mode in modes(hold) {
                let request = request(&format!("{hold:?} {mode:?}"), mode, crate::LONG);
                let mut last = 0;
                for bytes in (1..30).map(|step| step * 25) {
                    // One way or the other, in the middle of a packet or between two.
                    match bytes % 2 {
                        0 => bed.proxy.all().to_server().cut_after(bytes),
                        _ => bed.proxy.all().to_client().cut_after(bytes),
                    }
                    let guard = match locks.acquire(request.clone()).await {
                        Ok(guard) => guard,
                        Err(error) => {
                            assert_eq!(error.kind(), ErrorKind::Unavailable, "{error}");
                            None
                        }
                    };
                    if let Some(guard) = guard {
                        let token = guard.token().value();
                        assert!(token > last, "{hold:?} {mode:?}: {token} after {last}");
                        last = token;
                        // Its connection may be cut as well.
                        let _outcome = guard.release().await;
                    }
                    bed.proxy.all().pass();
                    let guard = take(&locks, &request).await;
                    let token = guard.token().value();
                    assert!(token > last, "{hold:?} {mode:?}: {token} after {last}");
                    last = token;
                    guard.release().await.expect("it runs");
                }
                bed.empties().await;
            }
        }
    });
}
