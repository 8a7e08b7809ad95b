//! Guards: how long they are held, and how they end.

use std::thread;
use std::time::Duration;

use lock_core::backend::{Clock, Released};
use lock_core::blocking::LockGuard;
use lock_core::{ErrorKind, LockRequest, LossReason, MemoryLock, Mode};

use crate::support::{LIMIT, MOMENT, TTL, client, current_thread, multi_thread, request};

/// Asserts that `guard` stays held for two of its ttls, so that it must have been renewed.
fn assert_renewed(guard: &LockGuard) {
    let lost = guard.wait_lost_within(TTL * 2);
    assert_eq!(lost, None);
    assert!(guard.is_held());
}

#[test]
fn a_guard_has_what_the_async_guard_has() {
    let locks = client(&MemoryLock::new());
    assert_eq!(locks.capabilities().backend, "memory");
    let guard = locks.acquire(request()).unwrap().expect("free");
    assert_eq!(guard.key().as_str(), "k");
    assert_eq!(guard.mode(), Mode::Exclusive);
    assert!(guard.remaining() > Duration::ZERO && guard.remaining() <= TTL);
    let watch = guard.watch();
    assert_eq!(watch.token(), guard.token());
    assert!(format!("{guard:?}").starts_with("LockGuard { key: \"k\""));
    drop(guard);
    assert!(!watch.is_held());
}

#[test]
fn a_guard_changes_its_mode() {
    let locks = client(&MemoryLock::new());
    let guard = locks
        .acquire(LockRequest::upgradeable("k").unwrap())
        .unwrap();
    let reader = locks.lock_shared("k").unwrap();
    let (guard, error) = guard.expect("free").try_upgrade().unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Busy);
    assert!(guard.is_held());
    reader.release().unwrap();
    let writer = guard.try_upgrade().unwrap();
    assert_eq!((writer.mode(), writer.slot()), (Mode::Exclusive, None));
    let reader = writer.downgrade().unwrap();
    assert_eq!(reader.mode(), Mode::Shared);
    assert!(locks.try_lock("k").unwrap().is_none());
    assert_eq!(locks.permit("pool", 1).unwrap().slot(), Some(0));
}

#[test]
fn a_guard_is_renewed_after_the_runtime_in_which_it_was_taken_is_gone() {
    let locks = MemoryLock::new();
    for runtime in [current_thread(), multi_thread()] {
        let task = client(&locks);
        let taken = runtime.spawn(async move { task.acquire(request()).unwrap() });
        let guard = runtime.block_on(taken).unwrap().expect("free");
        drop(runtime);
        assert_renewed(&guard);
        assert!(client(&locks.new_client()).try_lock("k").unwrap().is_none());
        assert_eq!(guard.release().unwrap(), Released::Released);
    }
}

#[test]
fn a_guard_is_held_after_its_client_was_dropped() {
    let store = MemoryLock::new();
    let locks = client(&store.new_client());
    let guard = locks.acquire(request()).unwrap().expect("free");
    drop(locks);
    assert_renewed(&guard);
    assert_eq!(guard.release().unwrap(), Released::Released);
    assert_eq!(store.claims(), [""; 0]);
}

#[test]
fn a_thread_that_panics_releases_its_lock() {
    let store = MemoryLock::new();
    let locks = client(&store);
    let other = client(&store.new_client());
    let panicking = thread::spawn(move || {
        let _guard = locks.lock("k").unwrap();
        panic!("on purpose");
    });
    assert!(panicking.join().is_err());
    assert!(other.lock_within("k", LIMIT).unwrap().is_some());
}

#[test]
fn a_removal_ends_waits_for_a_loss_at_the_next_renewal() {
    let store = MemoryLock::new();
    let ttl = Duration::from_secs(6);
    let taken = client(&store).acquire(request().with_ttl(ttl)).unwrap();
    let (guard, began) = (taken.expect("free"), Clock::Boot.now());
    assert!(store.evict(guard.key()));
    thread::scope(|scope| {
        let waits = [(); 2].map(|()| scope.spawn(|| guard.wait_lost()));
        for wait in waits {
            assert_eq!(wait.join().unwrap(), LossReason::Removed);
        }
    });
    let waited = Clock::Boot.now().since(began);
    assert!(
        waited < ttl * 2 / 3,
        "{waited:?} instead of a third of the ttl"
    );
    assert_eq!(guard.release().unwrap(), Released::AlreadyLost);
}

#[test]
fn a_maximum_hold_ends_waits_for_a_loss() {
    let locks = client(&MemoryLock::new());
    let guard = locks.acquire(request().holding_at_most(MOMENT)).unwrap();
    assert_eq!(guard.expect("free").wait_lost(), LossReason::TooLong);
}
