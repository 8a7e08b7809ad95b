//! Takes that are lost, late or repeated, and takes with lost answers.

use std::time::Duration;

use lock_core::{DistributedLock, DistributedLockExt, ErrorKind, LockGuard};
use lock_testkit::{eventually, steady};
use tokio::time::timeout;

use crate::bed::{BRIEFLY, Bed, request, take};
use crate::{PROMPT, TTL};

#[test]
fn a_take_whose_answer_is_lost_is_repeated_and_granted_once() {
    steady(async || {
        let bed = Bed::new();
        let locks = bed.client().await;
        take(&locks, "warm").await.release().await.unwrap();
        bed.command().lose_next_reply_and_cut();
        let guard = take(&locks, "k").await;
        assert!(guard.is_held());
        assert_eq!(bed.keys().len(), 1);
        guard.release().await.unwrap();
        bed.has_keys(0).await;
    });
}

#[test]
fn a_waiter_whose_answer_is_lost_keeps_its_place() {
    steady(async || {
        let bed = Bed::new();
        let (locks, other) = (bed.client().await, bed.direct().await);
        let held = take(&other, "k").await;
        bed.command().lose_next_reply_and_cut();
        let mut waiting = Box::pin(locks.lock("k"));
        bed.has_keys_beside(2, &mut waiting).await;
        assert!(timeout(BRIEFLY, &mut waiting).await.is_err());
        bed.has_keys_beside(2, &mut waiting).await;
        held.release().await.unwrap();
        let guard = timeout(PROMPT, waiting).await.expect("its turn");
        assert!(guard.unwrap().is_held());
    });
}

/// The answer comes after its caller was dropped.
#[test]
fn a_take_that_is_dropped_before_its_answer_leaves_nothing() {
    steady(async || {
        let bed = Bed::new();
        let locks = bed.client().await;
        let _other = take(&locks, "other").await;
        bed.command().to_client().hold();
        let dropped = timeout(BRIEFLY / 5, locks.lock("k")).await;
        assert!(dropped.is_err());
        bed.command().pass();
        bed.has_keys(1).await;
        assert!(timeout(PROMPT, locks.lock("k")).await.unwrap().is_ok());
    });
}

/// A delayed take arrives after the client has given it up. Another hold keeps its lease alive.
#[test]
fn a_take_that_arrives_after_its_clean_up_is_removed() {
    steady(async || {
        let bed = Bed::new();
        let locks = bed.client().await;
        let held = take(&locks, "other").await;
        bed.command().to_server().hold();
        let error = locks.acquire(request("k").without_waiting()).await;
        assert_eq!(error.unwrap_err().kind(), ErrorKind::Unavailable);
        bed.has_keys(1).await;
        bed.command().pass();
        tokio::time::sleep(TTL).await;
        let free = || async { locks.try_lock("k").await.is_ok_and(|guard| guard.is_some()) };
        eventually(PROMPT, "the late take is removed", free).await;
        assert!(held.is_held(), "it took another hold along");
        drop(held);
        bed.has_keys(0).await;
    });
}

/// The answer to the grant of a lease is lost, and the client requests the grant again.
#[test]
fn a_lease_whose_answer_is_lost_is_granted_once() {
    steady(async || {
        const ROUNDS: usize = 10;
        let bed = Bed::new();
        let locks = bed.client().await;
        let mut guards = Vec::new();
        // The proxy may lose other bytes of the server instead of this answer.
        for round in 0..ROUNDS {
            let ttl = PROMPT + Duration::from_secs(round as u64);
            let wanted = request(&format!("k{round}")).with_ttl(ttl);
            bed.background().lose_next_reply_and_cut();
            let guard = locks.acquire(wanted.without_waiting()).await.unwrap();
            guards.push(guard.expect("free"));
        }
        assert!(guards.iter().all(LockGuard::is_held));
        assert_eq!(bed.leases(), ROUNDS);
    });
}

#[test]
fn a_lease_whose_answer_never_comes_is_revoked() {
    steady(async || {
        let bed = Bed::new();
        let locks = bed.client().await;
        bed.background().to_client().hold();
        // Far longer than the client waits for the grant of a lease.
        let wanted = || request("k").with_ttl(PROMPT * 6).without_waiting();
        let error = locks.acquire(wanted()).await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Unavailable, "{error}");
        bed.background().pass();
        // If the answer still arrives in time, after the take was given up, the next claim uses the
        // lease.
        let guard = locks.acquire(wanted()).await.unwrap().expect("free");
        let one = || async { bed.leases() == 1 };
        eventually(PROMPT, "the other lease is revoked", one).await;
        assert!(guard.is_held());
    });
}

/// A caller gives up while its lease is being granted, and the next caller needs a lease.
#[test]
fn of_two_leases_with_one_ttl_one_is_revoked() {
    steady(async || {
        let bed = Bed::new();
        let locks = bed.client().await;
        bed.background().to_client().hold();
        // Far longer than the client waits for the grant of a lease.
        let wanted = || request("k").with_ttl(PROMPT * 6).without_waiting();
        let given_up = timeout(BRIEFLY, locks.acquire(wanted())).await;
        assert!(given_up.is_err(), "{given_up:?}");
        let mut next = Box::pin(locks.acquire(wanted()));
        assert!(timeout(BRIEFLY, &mut next).await.is_err());
        bed.background().pass();
        let guard = next.await.unwrap().expect("free");
        let one = || async { bed.leases() == 1 };
        eventually(PROMPT, "the other lease is revoked", one).await;
        assert!(guard.is_held());
    });
}

#[test]
fn a_connection_that_was_closed_while_it_was_idle_costs_nothing() {
    steady(async || {
        let bed = Bed::new();
        let locks = bed.client().await;
        take(&locks, "k").await.release().await.unwrap();
        for reset in [false, true] {
            if reset {
                bed.proxy.all().reset();
            } else {
                bed.proxy.all().cut();
            }
            assert!(take(&locks, "k").await.is_held());
            bed.has_keys(0).await;
        }
    });
}
