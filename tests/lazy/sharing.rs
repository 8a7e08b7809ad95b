//! One attempt to connect at a time, which belongs to no caller.

use std::sync::atomic::Ordering;
use std::time::Duration;

use lock_testkit::{eventually, poll_times};
use polylock::{Config, DistributedLockExt, ErrorKind, LockRequest};

use crate::gate::Gate;

/// Longest wait of a test for one poll.
const PATIENCE: Duration = Duration::from_secs(1);

#[tokio::test]
async fn callers_share_an_attempt_that_outlives_them() {
    let gate = Gate::new(0);
    let locks = gate.locks();
    assert_eq!(gate.begun(), 0, "connected before the first use");
    let mut first = Box::pin(locks.lock("a"));
    assert!(poll_times(first.as_mut(), 1, PATIENCE).await.is_none());
    gate.is_asked(1).await;
    let mut others: Vec<_> = ["b", "c"].map(|key| Box::pin(locks.lock(key))).into();
    for other in &mut others {
        assert!(poll_times(other.as_mut(), 1, PATIENCE).await.is_none());
    }
    drop(first);
    drop(others.pop());
    gate.open.add_permits(1);
    assert!(others.remove(0).await.unwrap().is_held());
    assert!(locks.try_lock("a").await.unwrap().is_some());
    assert_eq!(gate.begun(), 1);
}

#[tokio::test]
async fn an_attempt_whose_only_caller_is_gone_serves_the_next() {
    let gate = Gate::new(0);
    let locks = gate.locks();
    let mut only = Box::pin(locks.lock("k"));
    assert!(poll_times(only.as_mut(), 1, PATIENCE).await.is_none());
    drop(only);
    gate.is_asked(1).await;
    gate.open.add_permits(1);
    let guard = locks.lock("k").await.unwrap();
    guard.release().await.unwrap();
    assert_eq!(gate.begun(), 1);
    assert!(gate.store.claims().is_empty());
}

#[tokio::test]
async fn a_failed_attempt_fails_tries_and_the_next_use_tries_again() {
    let gate = Gate::new(2);
    gate.open.add_permits(10);
    let locks = gate.locks();
    for attempt in 1..=2 {
        let error = locks.try_lock("k").await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Unavailable, "{error}");
        assert!(error.to_string().contains("not there yet"), "{error}");
        assert_eq!(gate.begun(), attempt);
    }
    assert!(locks.try_lock("k").await.unwrap().is_some());
    assert_eq!(gate.begun(), 3);
}

#[tokio::test]
async fn a_wait_outlasts_failed_attempts_and_no_more() {
    let gate = Gate::new(3);
    gate.open.add_permits(10);
    let locks = gate.locks();
    let guard = locks.lock_within("k", Duration::from_secs(20)).await;
    assert!(guard.unwrap().is_some());
    assert_eq!(gate.begun(), 4);

    let gate = Gate::new(usize::MAX);
    gate.open.add_permits(1000);
    let begun = tokio::time::Instant::now();
    let waited = gate
        .locks()
        .lock_within("k", Duration::from_millis(300))
        .await;
    assert_eq!(waited.unwrap_err().kind(), ErrorKind::Unavailable);
    assert!(begun.elapsed() >= Duration::from_millis(300));
    assert!(begun.elapsed() < Duration::from_secs(2));
    assert!((2..100).contains(&gate.begun()), "{}", gate.begun());
}

#[tokio::test(start_paused = true)]
async fn a_silent_store_fails_a_try_and_the_attempt_goes_on() {
    let gate = Gate::new(0);
    let locks = gate.locks();
    let begun = tokio::time::Instant::now();
    let error = locks.try_lock("k").await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Unavailable, "{error}");
    assert_eq!(begun.elapsed().as_secs(), 2);
    let short = LockRequest::exclusive("k").unwrap().without_waiting();
    let short = short.with_ttl(Duration::from_secs(3));
    locks.acquire(short).await.unwrap_err();
    assert_eq!(begun.elapsed().as_secs(), 3, "a third of the ttl");
    let health = locks.health().await;
    assert!(health.latency.unwrap_err().is_retryable());
    assert_eq!((health.holds, health.waiters), (Some(0), Some(0)));
    assert_eq!(gate.begun(), 1);
    gate.open.add_permits(1);
    assert!(locks.try_lock("k").await.unwrap().is_some());
    assert_eq!(gate.begun(), 1);
}

#[tokio::test]
async fn capabilities_are_declared_until_the_store_tells_its_own() {
    let gate = Gate::new(0);
    let locks = gate.locks();
    let declared = locks.capabilities();
    assert_eq!(declared.backend, "shelf");
    assert!(declared.shared && !declared.permits && !declared.push);
    gate.open.add_permits(1);
    drop(locks.lock("k").await.unwrap());
    let found = locks.capabilities();
    assert!(found.permits && found.push);
    assert!(!found.fair, "the waiters of this process have a queue");
}

#[tokio::test]
async fn the_health_counts_who_waits_for_the_connection() {
    let gate = Gate::new(0);
    let locks = gate.locks();
    let mut waiting = Box::pin(locks.lock("k"));
    assert!(poll_times(waiting.as_mut(), 1, PATIENCE).await.is_none());
    let mut asking = Box::pin(locks.health());
    assert!(poll_times(asking.as_mut(), 1, PATIENCE).await.is_none());
    gate.open.add_permits(1);
    let guard = waiting.await.unwrap();
    let health = asking.await;
    assert!(health.is_reachable());
    assert_eq!(health.holds, Some(1));
    assert_eq!(gate.begun(), 1);
    drop(guard);
}

#[tokio::test]
async fn a_shutdown_ends_a_pending_attempt_and_its_waiters() {
    let gate = Gate::new(0);
    let locks = gate.locks();
    let mut waiting = Box::pin(locks.lock("k"));
    assert!(poll_times(waiting.as_mut(), 1, PATIENCE).await.is_none());
    gate.is_asked(1).await;
    locks.shutdown(Duration::ZERO).await.unwrap();
    let error = waiting.await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Closed, "{error}");
    let is_dropped = || async { gate.pending.load(Ordering::SeqCst) == 0 };
    eventually(Duration::from_secs(5), "the attempt is dropped", is_dropped).await;
    gate.open.add_permits(1);
    let error = locks.try_lock("k").await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Closed, "{error}");
    assert_eq!(error.key().map(|key| key.as_str()), Some("k"));
    assert_eq!(locks.ping().await.unwrap_err().kind(), ErrorKind::Closed);
    assert_eq!(gate.begun(), 1);
}

#[tokio::test]
async fn a_shutdown_between_attempts_wakes_a_waiter() {
    let gate = Gate::new(usize::MAX);
    gate.open.add_permits(1000);
    let locks = gate.locks();
    let mut waiting = Box::pin(locks.lock("k"));
    let failing = tokio::time::timeout(Duration::from_millis(100), waiting.as_mut());
    assert!(failing.await.is_err());
    locks.shutdown(Duration::ZERO).await.unwrap();
    assert_eq!(waiting.await.unwrap_err().kind(), ErrorKind::Closed);
}

#[tokio::test]
async fn a_shutdown_before_and_after_the_connection() {
    let gate = Gate::new(0);
    gate.open.add_permits(10);
    let unused = gate.locks();
    unused.shutdown(Duration::ZERO).await.unwrap();
    assert_eq!(
        unused.try_lock("k").await.unwrap_err().kind(),
        ErrorKind::Closed
    );
    assert_eq!(gate.begun(), 0);

    let locks = gate.locks();
    let guard = locks.lock("k").await.unwrap();
    locks.shutdown(Duration::from_secs(5)).await.unwrap();
    assert!(!guard.is_held());
    assert_eq!(
        locks.try_lock("k").await.unwrap_err().kind(),
        ErrorKind::Closed
    );
    assert!(gate.store.claims().is_empty());
}

#[tokio::test]
async fn a_dropped_client_drops_its_attempt() {
    let gate = Gate::new(0);
    let locks = gate.locks();
    let mut waiting = Box::pin(locks.lock("k"));
    assert!(poll_times(waiting.as_mut(), 1, PATIENCE).await.is_none());
    gate.is_asked(1).await;
    drop(waiting);
    drop(locks);
    let is_dropped = || async { gate.pending.load(Ordering::SeqCst) == 0 };
    eventually(Duration::from_secs(5), "the attempt is dropped", is_dropped).await;
}

#[test]
fn an_attempt_that_ended_with_its_runtime_is_begun_again() {
    let gate = Gate::new(0);
    let locks = gate.locks();
    let runtime = || {
        let mut builder = tokio::runtime::Builder::new_current_thread();
        builder.enable_all().build().expect("a runtime")
    };
    let first = runtime();
    first.block_on(async {
        let mut waiting = Box::pin(locks.lock("k"));
        assert!(poll_times(waiting.as_mut(), 1, PATIENCE).await.is_none());
        gate.is_asked(1).await;
    });
    drop(first);
    gate.open.add_permits(1);
    runtime().block_on(async {
        assert!(locks.try_lock("k").await.unwrap().is_some());
    });
    assert_eq!(gate.begun(), 2);
}

#[tokio::test]
async fn each_store_of_a_configuration_connects_for_itself() {
    let gate = Gate::new(0);
    let config = Config::default()
        .with_store("here", Config::new("memory://?namespace=lazy-here"))
        .with_store("later", Config::new("shelf://one"))
        .with_route("later/*", "later")
        .with_route("*", "here");
    let locks = gate.registry().connect_lazy(config.clone()).unwrap();
    assert!(locks.try_lock("k").await.unwrap().is_some());
    assert_eq!(gate.begun(), 0);
    gate.open.add_permits(1);
    assert!(locks.try_lock("later/k").await.unwrap().is_some());
    locks.shutdown(Duration::from_secs(5)).await.unwrap();

    let gate = Gate::new(2);
    gate.open.add_permits(10);
    let within = gate.registry();
    let locks = within.connect_within(config, Duration::from_secs(20)).await;
    assert!(locks.unwrap().try_lock("later/k").await.unwrap().is_some());
    assert_eq!(gate.begun(), 3);
}

#[tokio::test(start_paused = true)]
async fn the_limit_of_a_connect_cuts_an_attempt_short() {
    let gate = Gate::new(1);
    let registry = gate.registry();
    let begun = tokio::time::Instant::now();
    let silent = registry.connect_within("shelf://u:secret@one", Duration::from_secs(3));
    let error = silent.await.map(drop).unwrap_err();
    assert_eq!(begun.elapsed().as_secs(), 3);
    assert_eq!(error.kind(), ErrorKind::Unavailable);
    assert!(
        error.to_string().contains("not connected within 3 s"),
        "{error}"
    );
    assert!(!error.to_string().contains("secret"), "{error}");

    // The first attempt fails, and the second one is silent.
    gate.open.add_permits(1);
    let silent = registry.connect_within("shelf://one", Duration::from_secs(3));
    let error = silent.await.map(drop).unwrap_err();
    assert!(error.to_string().contains("not there yet"), "{error}");
    assert_eq!(begun.elapsed().as_secs(), 6);
}
