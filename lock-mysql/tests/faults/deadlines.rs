//! Slow servers and networks: no client counts on a lock for longer than it lasts.

use std::time::Duration;

use lock_core::{DistributedLock, ErrorKind, Wait};
use lock_mysql::MySqlHold;
use lock_testkit::servers::SqlVendor;
use lock_testkit::steady;
use tokio::task::JoinSet;
use tokio::time::{Instant, timeout};

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
                // The last request was sent at least one delay ago.
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
                    // Cut one direction, in a packet or between two packets.
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
                        // The connection of the release may be cut as well.
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

/// The server answers, but not within a third of the ttl.
#[test]
fn a_wait_whose_ttl_is_short_for_the_way_to_the_server_ends_with_an_error() {
    steady(async || {
        let bed = Bed::new(SqlVendor::MariaDb);
        let [leases, rows] = BOTH.map(|hold| waits_with_a_short_ttl(&bed, hold));
        tokio::join!(leases, rows);
    });
}

async fn waits_with_a_short_ttl(bed: &Bed, hold: MySqlHold) {
    let locks = bed.client(hold).await;
    let patient = request(
        &format!("{hold:?}"),
        lock_core::Mode::Exclusive,
        crate::LONG,
    );
    take_and_release(&locks, &patient).await;
    let late = Duration::from_millis(400);
    bed.proxy.all().to_client().delay(late);
    let others = locks.clone();
    let mut answered = JoinSet::new();
    answered.spawn(async move {
        loop {
            take_and_release(&others, &patient).await;
        }
    });
    let brief = request(
        &format!("{hold:?} brief"),
        lock_core::Mode::Exclusive,
        Duration::from_secs(1),
    );
    let waiting = locks.acquire(brief.with_wait(Wait::Forever));
    let outcome = timeout(Duration::from_secs(90), waiting).await;
    let error = outcome.expect("it ends").expect_err("too late for it");
    assert_eq!(error.kind(), ErrorKind::Unavailable, "{error}");
    assert!(error.to_string().contains("longer ttl"), "{error}");
}
