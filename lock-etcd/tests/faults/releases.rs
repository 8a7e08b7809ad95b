//! Releases whose answer is lost, or that cannot be sent at once.

use std::time::Duration;

use lock_core::backend::Released;
use lock_core::{DistributedLock, DistributedLockExt};
use lock_testkit::{eventually, steady};
use tokio::task::JoinSet;
use tokio::time::timeout;

use crate::bed::{BRIEFLY, Bed, request, take};
use crate::{PROMPT, TTL};

#[test]
fn a_release_whose_answer_is_lost_has_released() {
    steady(async || {
        let bed = Bed::new();
        let locks = bed.client().await;
        let guard = take(&locks, "k").await;
        bed.command().lose_next_reply_and_cut();
        guard.release().await.unwrap();
        assert_eq!(bed.keys().len(), 0);
    });
}

#[test]
fn a_release_goes_by_another_connection_when_the_first_is_silent() {
    steady(async || {
        let bed = Bed::new();
        let locks = bed.client().await;
        let guard = take(&locks, "k").await;
        bed.command().hold();
        let released = timeout(PROMPT, guard.release()).await.expect("it ends");
        released.unwrap();
        assert_eq!(bed.keys().len(), 0);
    });
}

/// The delayed release may still arrive, and would delete a later claim with the same name.
#[test]
fn a_name_whose_release_may_still_arrive_is_not_used_again() {
    steady(async || {
        let bed = Bed::new();
        let locks = bed.client().await;
        let guard = take(&locks, "k").await;
        let name = bed.keys();
        guard.release().await.unwrap();
        let guard = take(&locks, "k").await;
        assert_eq!(bed.keys(), name, "all was answered");
        bed.command().to_server().hold();
        let released = timeout(PROMPT, guard.release()).await.expect("it ends");
        released.unwrap();
        bed.command().pass();
        let again = take(&locks, "k").await;
        assert_ne!(bed.keys(), name);
        let name = bed.keys();
        bed.command().to_client().hold();
        let release = timeout(BRIEFLY / 5, again.release()).await;
        release.expect_err("nobody hears that it is released");
        // The background release may have ended over another connection.
        let third = locks.lock("k").await.unwrap();
        assert_ne!(bed.keys(), name);
        bed.command().pass();
        third.release().await.unwrap();
        assert_eq!(bed.keys().len(), 0);
    });
}

/// Another hold keeps the lease alive, so the claim would not end with its lease.
#[test]
fn what_is_dropped_while_nothing_gets_through_is_released_later() {
    steady(async || {
        let bed = Bed::new();
        let locks = bed.client().await;
        let (guard, other) = (take(&locks, "k").await, take(&locks, "other").await);
        bed.proxy.all().hold();
        drop(guard);
        tokio::time::sleep(TTL / 3).await;
        bed.proxy.all().lose();
        bed.proxy.all().reset();
        bed.proxy.all().pass();
        let only_the_other = || async { bed.keys().len() <= 1 };
        eventually(TTL + PROMPT, "it is released", only_the_other).await;
        drop(other);
        bed.has_keys(0).await;
    });
}

/// The first request is delayed, and the second one deletes the claim. The first answer comes
/// first.
#[test]
fn a_release_that_went_by_another_connection_says_so() {
    steady(async || {
        let bed = Bed::new();
        let locks = bed.client().await;
        let guard = take(&locks, "k").await;
        bed.command().to_server().hold();
        bed.background().to_client().hold();
        let mut releasing = JoinSet::new();
        releasing.spawn(guard.release());
        bed.has_keys(0).await;
        bed.command().pass();
        tokio::time::sleep(Duration::from_millis(200)).await;
        bed.background().pass();
        let released = timeout(PROMPT, releasing.join_next()).await;
        let released = released.expect("it ends").expect("asked once").unwrap();
        assert_eq!(released.unwrap(), Released::Released);
    });
}

#[test]
fn a_release_whose_first_request_breaks_in_the_end_takes_what_the_second_says() {
    steady(async || {
        let bed = Bed::new();
        let locks = bed.client().await;
        // So long a ttl that no keep-alive is sent during the test.
        let request = request("k").with_ttl(PROMPT * 6).without_waiting();
        let guard = locks.acquire(request).await.unwrap().expect("free");
        bed.proxy.all().to_client().hold();
        let sent = || bed.background().to_server().bytes();
        let before = sent();
        let mut releasing = JoinSet::new();
        releasing.spawn(guard.release());
        eventually(PROMPT, "the second request", || async { sent() > before }).await;
        bed.proxy.refuse();
        bed.command().cut();
        // Wait until the repetition of the first request has failed, too.
        tokio::time::sleep(Duration::from_millis(200)).await;
        bed.background().pass();
        let released = timeout(PROMPT, releasing.join_next()).await;
        let released = released.expect("it ends").expect("asked once").unwrap();
        released.expect("the second request was answered");
        bed.proxy.accept();
        bed.has_keys(0).await;
    });
}
