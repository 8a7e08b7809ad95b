//! Work under a lock.

use std::thread;
use std::time::{Duration, SystemTime};

use lock_core::blocking::Client;
use lock_core::{ErrorKind, HoldWatch, LockKey, MemoryLock};

use crate::support::{LIMIT, client, eventually, request};

#[test]
fn work_runs_on_the_calling_thread_under_the_lock() {
    let store = MemoryLock::new();
    let (locks, other) = (client(&store), client(&store.new_client()));
    let caller = thread::current().id();
    let work = |held: HoldWatch| {
        assert_eq!(thread::current().id(), caller);
        assert!(other.try_lock("k").unwrap().is_none());
        held.token()
    };
    let token = locks.with_lock(request(), work).unwrap().expect("free");
    let guard = other.try_lock("k").unwrap().expect("released");
    assert!(guard.token() > token);
    let busy = locks.with_lock(request().without_waiting(), |_| ());
    assert_eq!(busy.unwrap(), None);
    drop(guard);

    let parsed = |text: &'static str| {
        let work = |_| {
            text.parse::<u32>()
                .map_err(Box::<dyn std::error::Error>::from)
        };
        locks.try_with_lock(request(), work)
    };
    assert_eq!(parsed("42").unwrap(), Some(42));
    assert!(parsed("none").is_err());
}

#[test]
fn work_that_panics_releases_its_lock() {
    let store = MemoryLock::new();
    let locks = client(&store);
    let panicking = thread::spawn(move || locks.with_lock(request(), |_| panic!("on purpose")));
    assert!(panicking.join().is_err());
    let other = client(&store.new_client());
    assert!(other.lock_within("k", LIMIT).unwrap().is_some());
}

#[test]
fn a_loss_fails_the_work() {
    let store = MemoryLock::new();
    let locks = client(&store);
    let key = LockKey::new("k").unwrap();
    let work = |held: HoldWatch| {
        assert!(store.evict(&key));
        eventually("the work notices the loss", || !held.is_held());
        "done too late"
    };
    let error = locks.with_lock(request(), work).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Lost, "{error}");

    // The release finds no claim.
    let work = |_| assert!(store.evict(&key));
    let error = locks.with_lock(request(), work).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Lost, "{error}");
}

#[test]
#[expect(
    clippy::disallowed_methods,
    reason = "schedules are planned by the wall clock"
)]
fn a_job_runs_once() {
    let store = MemoryLock::new();
    let planned = SystemTime::now();
    let minute = Duration::from_secs(60);
    let once = |locks: &Client| locks.once("report", planned, minute, |held| held.is_held());
    assert_eq!(once(&client(&store)).unwrap(), Some(true));
    assert_eq!(once(&client(&store.new_client())).unwrap(), None);
    let late = client(&store).once("report", planned - minute * 2, minute, |_| ());
    assert_eq!(late.unwrap_err().kind(), ErrorKind::Config);
}
