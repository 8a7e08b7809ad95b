//! Renewals that arrive after the end of their hold: they restore no lock and prolong no other
//! hold.

use std::time::Duration;

use lock_core::backend::Released;
use lock_core::{DistributedLockExt, LossReason};
use lock_testkit::{eventually, steady};

use crate::bed::{Bed, exclusive, in_all_modes, lost, take};
use crate::{LONG, PROMPT};

/// A ttl whose renewals come soon, and which is long compared with an answer of the server.
const TTL: Duration = Duration::from_secs(2);

/// Delays the next renewal on its way to the server.
async fn catch_a_renewal(bed: &Bed) {
    bed.background().to_server().hold();
    let begun = bed.background().to_server().bytes();
    eventually(PROMPT, "a renewal is under way", || async {
        bed.background().to_server().bytes() > begun
    })
    .await;
}

/// Passes the delayed renewal on, and waits until the server has executed it.
async fn let_it_arrive(bed: &Bed) {
    let done = bed.scripts();
    bed.background().pass();
    eventually(PROMPT, "the renewal is done", || async {
        bed.scripts() > done
    })
    .await;
}

#[test]
fn a_renewal_that_comes_after_the_release_brings_nothing_back() {
    steady(async || {
        for request in in_all_modes("k", TTL) {
            let bed = Bed::new();
            let locks = bed.client().await;
            let guard = take(&locks, &request).await;
            catch_a_renewal(&bed).await;
            assert_eq!(guard.release().await.unwrap(), Released::Released);
            let_it_arrive(&bed).await;
            assert!(
                !bed.exists(request.key.as_str()),
                "{:?} is back",
                request.mode
            );
            bed.empties().await;
        }
    });
}

#[test]
fn a_renewal_that_comes_after_the_release_prolongs_nobody_else() {
    steady(async || {
        for (request, next) in in_all_modes("k", TTL)
            .into_iter()
            .zip(in_all_modes("k", LONG))
        {
            let bed = Bed::new();
            let (locks, direct) = (bed.client().await, bed.direct().await);
            let guard = take(&locks, &next).await;
            // A hold with a short ttl, so that the renewal of a long hold is not due soon.
            let short = take(&locks, &exclusive("short", TTL)).await;
            guard.release().await.unwrap();
            let guard = take(&locks, &request).await;
            catch_a_renewal(&bed).await;
            guard.release().await.unwrap();
            drop(short);
            let key = request.key.as_str();
            // The next holder has a ttl of its own, which is shorter than the ttl in the renewal.
            let another = take(&direct, &exclusive(key, TTL * 3 / 4)).await;
            let before = bed.expires_in(key);
            let_it_arrive(&bed).await;
            assert!(
                bed.expires_in(key) <= before,
                "{:?} prolongs another",
                request.mode
            );
            another.release().await.unwrap();
        }
    });
}

#[test]
fn a_renewal_after_a_removal_tells_it_and_creates_nothing() {
    steady(async || {
        for request in in_all_modes("k", TTL) {
            let bed = Bed::new();
            let locks = bed.client().await;
            let guard = take(&locks, &request).await;
            catch_a_renewal(&bed).await;
            let key = request.key.as_str();
            bed.ask(&["DEL", key]);
            let_it_arrive(&bed).await;
            assert_eq!(lost(&guard).await, LossReason::Removed);
            assert!(!bed.exists(key), "{:?} is back", request.mode);
            // The loss is final, and the release of the lost hold leaves the next hold alone.
            let direct = bed.direct().await;
            let next = take(&direct, &exclusive(key, LONG)).await;
            assert_eq!(guard.release().await.unwrap(), Released::AlreadyLost);
            assert_eq!(next.release().await.unwrap(), Released::Released);
            bed.empties().await;
        }
    });
}

#[test]
fn a_dropped_guard_of_a_lost_lock_concerns_nobody_else() {
    steady(async || {
        let bed = Bed::new();
        let (locks, direct) = (bed.client().await, bed.direct().await);
        let guard = take(&locks, &exclusive("k", TTL / 4)).await;
        bed.proxy.all().hold();
        assert_eq!(lost(&guard).await, LossReason::Expired);
        let next = take(&direct, &exclusive("k", LONG)).await;
        let calls = bed.scripts();
        drop(guard);
        bed.proxy.all().pass();
        eventually(PROMPT, "the release arrives", || async {
            bed.scripts() > calls
        })
        .await;
        lock_testkit::assert_excluded!(direct.try_lock("k").await.unwrap().is_none());
        assert_eq!(next.release().await.unwrap(), Released::Released);
    });
}
