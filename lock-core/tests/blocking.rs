//! Locks for threads without async.

use std::process::{Child, Command};
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::sync::{Arc, mpsc};
use std::thread;
use std::time::{Duration, SystemTime};

use async_trait::async_trait;
use lock_core::backend::{Clock, Released};
use lock_core::blocking::{Client, LockGuard};
use lock_core::{
    Capabilities, DistributedLock, DistributedLockExt, Error, ErrorKind, HandOff, HoldWatch,
    LockKey, LockRequest, LossReason, MemoryLock, Mode, Result, Wait,
};
use tokio::runtime::{Builder, Runtime};

const MOMENT: Duration = Duration::from_millis(20);
const TTL: Duration = Duration::from_millis(600);
const LIMIT: Duration = Duration::from_secs(20);

fn client(locks: &MemoryLock) -> Client {
    Client::new(Arc::new(locks.clone())).unwrap()
}

fn request() -> LockRequest {
    LockRequest::exclusive("k").unwrap().with_ttl(TTL)
}

fn current_thread() -> Runtime {
    Builder::new_current_thread().enable_all().build().unwrap()
}

fn multi_thread() -> Runtime {
    let mut builder = Builder::new_multi_thread();
    builder.worker_threads(1).enable_all().build().unwrap()
}

/// Waits until `predicate` is true, and panics after the limit.
fn eventually(what: &str, predicate: impl Fn() -> bool) {
    let began = Clock::Boot.now();
    while !predicate() {
        assert!(Clock::Boot.now().since(began) < LIMIT, "{what}");
        thread::park_timeout(Duration::from_millis(1));
    }
}

/// Asserts that `guard` stays held for two of its ttls, so that it must have been renewed.
fn assert_renewed(guard: &LockGuard) {
    let lost = guard.wait_lost_within(TTL * 2);
    assert_eq!(lost, None);
    assert!(guard.is_held());
}

/// Takes and releases locks in every mode, and finds them held in between.
fn take_and_release(locks: &Client) {
    let guard = locks.lock("k").unwrap();
    assert!(guard.is_held());
    assert!(locks.try_lock("k").unwrap().is_none());
    assert!(locks.lock_within("k", MOMENT).unwrap().is_none());
    assert!(locks.lock_shared_within("k", MOMENT).unwrap().is_none());
    assert_eq!(guard.release().unwrap(), Released::Released);

    let readers = [locks.lock_shared("k"), locks.lock_shared("k")];
    let readers = readers.map(|reader| reader.unwrap());
    assert!(readers[0].token() < readers[1].token());
    assert!(locks.try_lock("k").unwrap().is_none());
    for reader in readers {
        assert_eq!(reader.release().unwrap(), Released::Released);
    }

    let permits = [locks.permit("k", 2), locks.permit("k", 2)];
    assert!(locks.try_permit("k", 2).unwrap().is_none());
    assert!(locks.permit_within("k", 2, MOMENT).unwrap().is_none());
    for permit in permits {
        assert_eq!(permit.unwrap().release().unwrap(), Released::Released);
    }
    assert!(locks.try_lock_shared("k").unwrap().is_some());
}

#[test]
fn calls_need_no_runtime() {
    take_and_release(&client(&MemoryLock::new()));
}

#[test]
fn calls_work_in_spawn_blocking() {
    let locks = client(&MemoryLock::new());
    let runtime = multi_thread();
    let call = runtime.spawn_blocking(move || take_and_release(&locks));
    runtime.block_on(call).unwrap();
}

#[test]
fn calls_work_in_a_task_of_a_current_thread_runtime() {
    let locks = client(&MemoryLock::new());
    let runtime = current_thread();
    let spawned = locks.clone();
    let task = runtime.spawn(async move { take_and_release(&spawned) });
    runtime.block_on(async move {
        task.await.unwrap();
        take_and_release(&locks);
    });
}

#[test]
fn calls_work_on_the_worker_of_a_runtime() {
    let locks = client(&MemoryLock::new());
    let runtime = multi_thread();
    let task = runtime.spawn(async move { take_and_release(&locks) });
    runtime.block_on(task).unwrap();
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
fn work_that_panics_releases_its_lock() {
    let store = MemoryLock::new();
    let locks = client(&store);
    let panicking = thread::spawn(move || locks.with_lock(request(), |_| panic!("on purpose")));
    assert!(panicking.join().is_err());
    let other = client(&store.new_client());
    assert!(other.lock_within("k", LIMIT).unwrap().is_some());
}

/// A store whose every request fails.
#[derive(Debug)]
struct Broken;

#[async_trait]
impl DistributedLock for Broken {
    fn capabilities(&self) -> Capabilities {
        Capabilities::new("broken")
    }

    async fn acquire(&self, _: LockRequest) -> Result<Option<lock_core::LockGuard>> {
        Err(Error::new(ErrorKind::Unavailable, "no answer"))
    }
}

#[test]
fn errors_are_passed_on() {
    let kind = |result: Result<()>| result.unwrap_err().kind();
    let locks = Client::new(Arc::new(Broken)).unwrap();
    let minute = Duration::from_secs(60);
    assert_eq!(kind(locks.lock("k").map(drop)), ErrorKind::Unavailable);
    assert_eq!(kind(locks.try_lock("k").map(drop)), ErrorKind::Unavailable);
    assert_eq!(kind(locks.lock("").map(drop)), ErrorKind::InvalidKey);
    assert_eq!(
        kind(locks.lock_all(["a", ""]).map(drop)),
        ErrorKind::InvalidKey
    );
    assert_eq!(
        kind(locks.lock_all(["a"]).map(drop)),
        ErrorKind::Unavailable
    );
    assert_eq!(kind(locks.shutdown(minute)), ErrorKind::Unsupported);
    let done = locks.with_lock(request(), |_| panic!("without a lock"));
    assert_eq!(kind(done.map(drop::<Option<()>>)), ErrorKind::Unavailable);
    let refused = Client::connect(async { Err(Error::new(ErrorKind::Denied, "no")) });
    assert_eq!(kind(refused.map(drop)), ErrorKind::Denied);
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
fn a_maximum_hold_ends_waits_for_a_loss() {
    let locks = client(&MemoryLock::new());
    let guard = locks.acquire(request().holding_at_most(MOMENT)).unwrap();
    assert_eq!(guard.expect("free").wait_lost(), LossReason::TooLong);
}

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

#[test]
fn sets_are_taken_whole_or_not_at_all() {
    let store = MemoryLock::new();
    let locks = client(&store);
    let set = locks.lock_all(["b", "a", "b"]).unwrap();
    let keys: Vec<_> = set.keys().map(LockKey::as_str).collect();
    assert_eq!(keys, ["a", "b"]);
    assert_eq!(set.token("a"), set.tokens().next().map(|(_, token)| token));
    assert!(set.is_held() && set.remaining() > MOMENT);
    assert!(locks.try_lock_all(["b", "c"]).unwrap().is_none());
    assert!(locks.lock_all_within(["b", "c"], MOMENT).unwrap().is_none());
    assert_eq!(store.claims().len(), 2, "only the set");
    assert_eq!(set.wait_lost_within(MOMENT), None);
    assert_eq!(set.release().unwrap(), Released::Released);

    let requests = ["a", "b"].map(|key| LockRequest::exclusive(key).unwrap().with_ttl(TTL));
    let set = locks
        .acquire_all(requests, Wait::No)
        .unwrap()
        .expect("free");
    let second = LockKey::new("b").unwrap();
    assert!(store.evict(&second));
    assert_eq!(set.wait_lost(), (&second, LossReason::Removed));
    assert!(!set.is_held());
    drop(set);
    eventually("no claim is left", || store.claims().is_empty());
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

const CHILD: &str = "POLYLOCK_BLOCKING_CHILD";

/// Takes a lock and leaves it to the end of the process; does nothing if this is no child.
#[test]
fn child() {
    if std::env::var_os(CHILD).is_some() {
        let locks = client(&MemoryLock::new());
        let guard = locks.lock("k").unwrap();
        assert!(guard.is_held());
        std::mem::forget((locks, guard));
    }
}

/// Kills the child if the test fails.
struct Running(Child);

impl Drop for Running {
    fn drop(&mut self) {
        let _has_ended = self.0.kill();
        let _status = self.0.wait();
    }
}

#[test]
fn a_process_ends_although_it_has_a_client_and_a_guard() {
    let program = std::env::current_exe().unwrap();
    let mut command = Command::new(program);
    command
        .args(["--exact", "child", "--quiet"])
        .env(CHILD, "1");
    let mut child = Running(command.spawn().unwrap());
    let began = Clock::Boot.now();
    let status = loop {
        if let Some(status) = child.0.try_wait().unwrap() {
            break status;
        }
        assert!(Clock::Boot.now().since(began) < LIMIT, "the child hangs");
        thread::park_timeout(MOMENT);
    };
    assert!(status.success(), "{status}");
}
