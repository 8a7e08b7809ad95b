//! Limits of requests, waits and holds on slow and silent networks.

use std::future::ready;
use std::time::Duration;

use lock_core::backend::Released;
use lock_core::{DistributedLock, ErrorKind, LossReason};
use lock_redis::RedisLock;
use lock_testkit::{eventually, steady};
use tokio::task::JoinSet;
use tokio::time::{Instant, timeout};

use crate::bed::{Bed, exclusive, in_all_modes, lost, take, try_take, valid_until};
use crate::{LONG, PROMPT};

/// The largest overrun of a limit on a machine that is busy with other tests.
const SLACK: Duration = Duration::from_millis(900);

/// The largest overrun of the quickest of several waits.
///
/// A busy machine delays some waits, a request without a limit delays all. A client that has
/// measured slow answers waits for up to 250 ms more.
const QUICKEST: Duration = Duration::from_millis(350);

/// Waits several times for a lock whose server does not answer, and checks when each wait ends.
async fn unavailable_after(locks: &RedisLock, limit: Duration) {
    let mut quickest = Duration::MAX;
    for _ in 0..4 {
        let begin = Instant::now();
        let request = exclusive("k", LONG).waiting_at_most(limit);
        let answer = locks.acquire(request).await;
        let error = answer.expect_err("nobody answers");
        assert_eq!(error.kind(), ErrorKind::Unavailable, "{error}");
        assert!(
            begin.elapsed() >= limit,
            "{:?} of {limit:?}",
            begin.elapsed()
        );
        quickest = quickest.min(begin.elapsed());
    }
    assert!(quickest < limit + QUICKEST, "{quickest:?} of {limit:?}");
}

#[test]
fn an_attempt_is_one_request_and_one_round_trip() {
    steady(async || {
        let bed = Bed::new();
        let locks = bed.client().await;
        for request in in_all_modes("k", LONG) {
            let calls = || [bed.scripts(), bed.calls("pttl"), bed.calls("ping")];
            let before = calls();
            let held = try_take(&locks, &request).await.unwrap().expect("free");
            let one = [before[0] + 1, before[1], before[2]];
            assert_eq!(calls(), one, "{:?} granted", request.mode);
            let refused = exclusive(request.key.as_str(), LONG);
            lock_testkit::assert_excluded!(try_take(&locks, &refused).await.unwrap().is_none());
            // The script reads the rest of the lease with `PTTL` for the waiter.
            let two = [one[0] + 1, one[1] + 1, one[2]];
            assert_eq!(calls(), two, "{:?} refused", request.mode);
            held.release().await.unwrap();
        }
        let delay = Duration::from_millis(600);
        bed.proxy.all().to_client().delay(delay);
        let begin = Instant::now();
        let guard = try_take(&locks, &exclusive("k", LONG)).await.unwrap();
        assert!(
            guard.is_some() && begin.elapsed() < delay * 2,
            "{:?}",
            begin.elapsed()
        );
    });
}

#[test]
fn attempts_and_waits_end_in_time_on_a_silent_network() {
    steady(async || {
        let bed = Bed::new();
        let locks = bed.client().await;
        bed.proxy.all().hold();
        for request in in_all_modes("k", LONG) {
            let begin = Instant::now();
            let error = try_take(&locks, &request).await.unwrap_err();
            assert_eq!(error.kind(), ErrorKind::Unavailable, "{error}");
            assert!(
                begin.elapsed() < Duration::from_secs(1) + SLACK,
                "{:?}",
                begin.elapsed()
            );
        }
        for limit in [20, 300].map(Duration::from_millis) {
            unavailable_after(&locks, limit).await;
        }
    });
}

#[test]
fn the_end_of_a_wait_covers_connecting() {
    steady(async || {
        for refused in [false, true] {
            let bed = Bed::new();
            let locks = bed.client().await;
            // From now on the proxy accepts connections without answers, or refuses them.
            bed.proxy.all().hold();
            if refused {
                bed.proxy.refuse();
            }
            bed.proxy.all().reset();
            eventually(PROMPT, "the connections are gone", || async {
                bed.command().open() == 0
            })
            .await;
            for limit in [50, 300].map(Duration::from_millis) {
                unavailable_after(&locks, limit).await;
            }
        }
    });
}

#[test]
fn slow_answers_are_waited_for_as_long_as_the_ttl_allows() {
    steady(async || {
        let bed = Bed::new();
        let locks = bed.client().await;
        bed.proxy
            .all()
            .to_client()
            .delay(Duration::from_millis(600));
        let ttl = Duration::from_secs(6);
        let guard = try_take(&locks, &exclusive("k", ttl))
            .await
            .unwrap()
            .expect("free");
        let begin = Instant::now();
        let lost = timeout(ttl * 3 / 2, guard.lost()).await;
        assert!(lost.is_err(), "{lost:?} after {:?}", begin.elapsed());
        assert_eq!(guard.release().await.unwrap(), Released::Released);
    });
}

#[test]
fn a_grant_that_comes_after_its_ttl_is_no_guard() {
    steady(async || {
        let bed = Bed::new();
        let locks = bed.client().await;
        for ttl in [Duration::from_millis(500), LONG] {
            for request in in_all_modes("k", ttl) {
                bed.proxy
                    .all()
                    .to_client()
                    .delay(Duration::from_secs(3).min(ttl + ttl / 5));
                let begin = Instant::now();
                let error = try_take(&locks, &request).await.unwrap_err();
                assert_eq!(error.kind(), ErrorKind::Unavailable, "{error}");
                assert!(
                    begin.elapsed() < Duration::from_secs(1) + SLACK,
                    "{:?}",
                    begin.elapsed()
                );
                bed.empties().await;
                bed.proxy.all().pass();
                // The client may be about to replace the connection, so a take may need a second
                // one.
                drop(take(&locks, &exclusive("between", LONG)).await);
                bed.empties().await;
            }
        }
    });
}

/// At any time the server has to keep the lock for longer than the client counts on it.
#[test]
fn validity_counts_from_the_sending_of_takes_and_renewals() {
    steady(async || {
        let bed = Bed::new();
        let locks = bed.client().await;
        let (ttl, delay) = (Duration::from_secs(4), Duration::from_millis(400));
        bed.proxy.all().to_client().delay(delay);
        for request in in_all_modes("k", ttl) {
            let begin = Instant::now();
            let guard = try_take(&locks, &request).await.unwrap().expect("free");
            assert!(
                guard.remaining() + begin.elapsed() < ttl,
                "counted from the answer"
            );
            let (mut renewals, mut last) = (0, valid_until(&guard));
            eventually(PROMPT, "two renewals are confirmed", || {
                let asked = Instant::now();
                let server = bed.expires_in(request.key.as_str()) + Duration::from_millis(1);
                let ours = guard.remaining();
                // The answer to a renewal between the two readings would still be on its way.
                if asked.elapsed() < delay {
                    assert!(ours <= server, "{ours:?} here and {server:?} there");
                }
                let until = valid_until(&guard);
                if until > last + delay {
                    (renewals, last) = (renewals + 1, until);
                }
                ready(renewals == 2)
            })
            .await;
            guard.release().await.unwrap();
        }
    });
}

#[test]
fn renewals_slower_than_the_lease_end_it_in_time() {
    steady(async || {
        let bed = Bed::new();
        let locks = bed.client().await;
        let ttl = Duration::from_secs(1);
        for delay in [ttl * 9 / 10, ttl * 2] {
            let begin = Instant::now();
            let guard = take(&locks, &exclusive("k", ttl)).await;
            bed.background().to_client().delay(delay);
            assert_eq!(lost(&guard).await, LossReason::Expired);
            let held = begin.elapsed();
            assert!(held < ttl + SLACK, "the loss is told after {held:?}");
            assert!(held > ttl * 9 / 10, "a false alarm after {held:?}");
            drop(guard);
            bed.proxy.all().pass();
            bed.empties().await;
        }
    });
}

#[test]
fn one_renewal_that_hangs_loses_nothing() {
    steady(async || {
        let bed = Bed::new();
        let locks = bed.client().await;
        let ttl = Duration::from_secs(3);
        let guard = take(&locks, &exclusive("k", ttl)).await;
        // Only the current background connection is silent; the next renewal opens another
        // connection.
        bed.proxy.nth(1).hold();
        let lost = timeout(ttl * 3, guard.lost()).await;
        assert!(lost.is_err(), "{lost:?}");
        assert!(
            bed.background().count() >= 2,
            "the silent connection was never given up"
        );
        assert_eq!(guard.release().await.unwrap(), Released::Released);
    });
}

/// The server answers, but later than a third of the ttl.
#[test]
fn a_wait_whose_ttl_is_short_for_the_way_to_the_server_ends_with_an_error() {
    steady(async || {
        let bed = Bed::new();
        let locks = bed.client().await;
        take(&locks, &exclusive("other", LONG))
            .await
            .release()
            .await
            .unwrap();
        bed.proxy
            .all()
            .to_client()
            .delay(Duration::from_millis(250));
        let others = locks.clone();
        let mut answered = JoinSet::new();
        answered.spawn(async move {
            loop {
                let guard = take(&others, &exclusive("other", LONG)).await;
                guard.release().await.expect("it is answered");
            }
        });
        let brief = exclusive("k", Duration::from_millis(600));
        let outcome = timeout(Duration::from_secs(60), locks.acquire(brief)).await;
        let error = outcome.expect("it ends").expect_err("too late for it");
        assert_eq!(error.kind(), ErrorKind::Unavailable, "{error}");
        assert!(error.to_string().contains("longer ttl"), "{error}");
        answered.abort_all();
    });
}
