//! Changes of the mode whose answers are lost or late.

use lock_core::{DistributedLock, ErrorKind, LockGuard, LockRequest};
use lock_etcd::EtcdLock;
use lock_testkit::{assert_excluded, steady};
use tokio::time::{sleep, timeout};

use crate::bed::{BRIEFLY, Bed, take};
use crate::{PROMPT, TTL};

async fn upgradeable(locks: &EtcdLock) -> LockGuard {
    let request = LockRequest::upgradeable("k").expect("a key").with_ttl(TTL);
    let taken = locks.acquire(request).await;
    taken.expect("the server runs").expect("free")
}

async fn shared(locks: &EtcdLock) -> LockGuard {
    let request = LockRequest::shared("k").expect("a key").with_ttl(TTL);
    let taken = locks.acquire(request.without_waiting()).await;
    taken.expect("the server runs").expect("readers may enter")
}

/// The servers carry out the change, and the client asks again.
#[test]
fn a_change_of_the_mode_whose_answer_is_lost_is_made_once() {
    steady(async || {
        let bed = Bed::new();
        let locks = bed.client().await;
        let guard = upgradeable(&locks).await;
        // The first answer comes in time, and the second one after the limit of the request.
        bed.command().to_client().delay(BRIEFLY * 3);
        let guard = timeout(PROMPT, guard.try_upgrade()).await;
        let guard = guard.expect("an answer");
        let guard = guard.expect("it is granted");
        let version = bed
            .cluster
            .control(&["get", "--prefix", "k/", "-w", "json"]);
        assert!(version.contains("\"version\":2"), "{version}");
        guard.release().await.expect("the server runs");
        bed.has_keys(0).await;
    });
}

/// The reader comes and goes between the two requests of the upgrade: the answer to the first is
/// late. The token of the reader is that of its arrival.
#[test]
fn a_reader_that_came_and_went_during_an_upgrade_has_a_smaller_token() {
    steady(async || {
        let bed = Bed::new();
        let (locks, other) = (bed.client().await, bed.direct().await);
        let guard = upgradeable(&locks).await;
        bed.command().to_client().delay(BRIEFLY);
        let read = async {
            sleep(BRIEFLY / 2).await;
            let reader = shared(&other).await;
            let token = reader.token();
            reader.release().await.expect("the server runs");
            token
        };
        let (upgraded, token) = tokio::join!(guard.try_upgrade(), read);
        bed.command().pass();
        let writer = upgraded.expect("no reader is left");
        assert!(writer.token() > token, "{writer:?} after {token}");
    });
}

/// All claims move to the lease of the next leader, while a hold has two claims on one key.
#[test]
fn a_change_of_leader_during_an_upgrade_ends_no_hold() {
    steady(async || {
        let bed = Bed::new();
        let locks = bed.client().await;
        let other = take(&locks, "other").await;
        let guard = upgradeable(&locks).await;
        bed.command().to_client().hold();
        let mut upgrading = Box::pin(guard.try_upgrade());
        assert!(timeout(BRIEFLY, &mut upgrading).await.is_err(), "no answer");
        // The only member becomes leader again, in a new term.
        bed.cluster.first().restart();
        bed.command().pass();
        let upgraded = timeout(PROMPT, upgrading).await.expect("an answer");
        let writer = upgraded.expect("no reader holds it");
        sleep(TTL * 3 / 2).await;
        assert!(writer.is_held() && other.is_held());
    });
}

/// The exclusive hold ends with the downgrade, and its release is due before the answer comes.
#[test]
fn a_downgrade_at_the_end_of_a_minimum_hold_keeps_its_key() {
    steady(async || {
        let bed = Bed::new();
        let (locks, other) = (bed.client().await, bed.direct().await);
        // The two answers take twice the delay, and the mode changes after the first of them.
        let delay = BRIEFLY / 2;
        for early in [delay / 2, delay * 5 / 4, delay * 3 / 2, delay * 3] {
            let minimum = BRIEFLY * 4;
            let request = LockRequest::exclusive("k").expect("a key").with_ttl(TTL);
            let taken = locks.acquire(request.holding_at_least(minimum)).await;
            let guard = taken.expect("the server runs").expect("no end");
            sleep(minimum - early).await;
            bed.command().to_client().delay(delay);
            let downgraded = timeout(PROMPT, guard.downgrade()).await;
            bed.command().pass();
            if let Ok(reader) = downgraded.expect("an answer") {
                // At once, before a renewal misses the key.
                let writer = LockRequest::exclusive("k").expect("a key");
                let writer = other.acquire(writer.without_waiting()).await;
                let is_refused = writer.expect("the server runs").is_none();
                assert_excluded!(is_refused || !reader.is_held(), "a writer beside a reader");
            }
        }
    });
}

/// The reader comes between the two requests of the upgrade: the answer to the first is late.
#[test]
fn a_reader_that_comes_during_an_upgrade_is_not_overlooked() {
    steady(async || {
        let bed = Bed::new();
        let (locks, other) = (bed.client().await, bed.direct().await);
        let guard = upgradeable(&locks).await;
        bed.command().to_client().delay(BRIEFLY);
        let read = async {
            sleep(BRIEFLY / 2).await;
            shared(&other).await
        };
        let (upgraded, reader) = tokio::join!(guard.try_upgrade(), read);
        bed.command().pass();
        assert_excluded!(upgraded.is_err(), "a writer beside a reader");
        let (guard, error) = upgraded.expect_err("a reader holds it");
        assert_eq!(error.kind(), ErrorKind::Busy, "{error:?}");
        assert!(guard.is_held() && reader.is_held());
    });
}
