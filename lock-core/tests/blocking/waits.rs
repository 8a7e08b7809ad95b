//! Waits of threads, and their exclusion.

use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::sync::{Arc, mpsc};
use std::thread;
use std::time::Duration;

use lock_core::backend::Clock;
use lock_core::blocking::Client;
use lock_core::{DistributedLockExt, ErrorKind, HandOff, LossReason, MemoryLock};

use crate::support::{LIMIT, MOMENT, client, current_thread, eventually};

#[test]
fn a_store_that_async_code_uses_as_well_excludes_both() {
    let store = MemoryLock::new();
    let locks = client(&store);
    let runtime = current_thread();
    let guard = runtime.block_on(store.lock("k")).unwrap();
    assert!(locks.try_lock("k").unwrap().is_none());
    runtime.block_on(guard.release()).unwrap();
    let guard = locks.lock("k").unwrap();
    assert!(runtime.block_on(store.try_lock("k")).unwrap().is_none());
    drop(guard);
}

/// Threads of two clients, one of them with hand-off, increment a number that is not atomic.
#[test]
fn threads_exclude_each_other() {
    const THREADS: u32 = 40;
    const TURNS: u32 = 25;
    let store = MemoryLock::new();
    let budget = Duration::from_millis(10);
    let handing_on = HandOff::new(Arc::new(store.new_client()), budget);
    let clients = [client(&store), Client::new(Arc::new(handing_on)).unwrap()];
    let (count, is_busy) = (AtomicU32::new(0), AtomicBool::new(false));
    thread::scope(|scope| {
        for number in 0..THREADS as usize {
            let (locks, count, is_busy) = (&clients[number % 2], &count, &is_busy);
            scope.spawn(move || {
                for _ in 0..TURNS {
                    let guard = locks.lock("k").unwrap();
                    assert!(!is_busy.swap(true, Ordering::SeqCst), "two holders");
                    let read = count.load(Ordering::Relaxed);
                    thread::yield_now();
                    count.store(read + 1, Ordering::Relaxed);
                    is_busy.store(false, Ordering::SeqCst);
                    guard.release().unwrap();
                }
            });
        }
    });
    assert_eq!(count.into_inner(), THREADS * TURNS);
    eventually("no claim is left", || store.claims().is_empty());
}

#[test]
fn a_wait_ends_when_the_holder_releases_or_drops() {
    let store = MemoryLock::new();
    let (holder, waiter) = (client(&store), client(&store.new_client()));
    for drops in [false, true] {
        let guard = holder.lock("k").unwrap();
        let locks = waiter.clone();
        let waiting = thread::spawn(move || locks.lock_within("k", LIMIT).unwrap());
        eventually("the waiter is in the queue", || store.claims().len() == 2);
        assert!(!waiting.is_finished());
        match drops {
            true => drop(guard),
            false => _ = guard.release().unwrap(),
        }
        assert!(waiting.join().unwrap().is_some());
        eventually("no claim is left", || store.claims().is_empty());
    }
}

#[test]
fn a_wait_ends_at_its_limit() {
    let store = MemoryLock::new();
    let guard = client(&store).lock("k").unwrap();
    let began = Clock::Boot.now();
    let taken = client(&store.new_client()).lock_within("k", MOMENT);
    assert!(taken.unwrap().is_none());
    assert!(Clock::Boot.now().since(began) >= MOMENT);
    assert_eq!(store.claims().len(), 1, "only the holder");
    drop(guard);
}

#[test]
fn a_shutdown_ends_waits_and_guards() {
    let locks = client(&MemoryLock::new());
    let guard = locks.lock("k").unwrap();
    let (sender, ended) = mpsc::channel();
    let waiter = locks.clone();
    thread::spawn(move || sender.send(waiter.lock("k").map(drop)));
    locks.shutdown(LIMIT).unwrap();
    assert_eq!(guard.wait_lost(), LossReason::Closed);
    let error = ended.recv_timeout(LIMIT).unwrap().unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Closed);
}
