//! Crowds of waiters in one process, in each mode: their memory, their requests, and that all are
//! served.
//!
//! `LOCK_CROWD` is the number of waiters. Default: 2,000.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use lock_core::backend::{Keeper, async_trait};
use lock_core::{
    Capabilities, DistributedLock, HandOff, LockGuard, LockRequest, MemoryLock, Mode, Result,
};
use tokio::sync::Notify;
use tokio::task::JoinSet;
use tokio::time::{Instant, sleep, timeout};

/// Maximum memory of a waiter in bytes, beyond a task that waits on a [`Notify`].
const BYTES: usize = 2048;

/// A memory backend that counts acquisitions.
#[derive(Debug)]
struct Counted {
    memory: MemoryLock,
    asked: AtomicUsize,
}

#[async_trait]
impl DistributedLock for Counted {
    fn capabilities(&self) -> Capabilities {
        self.memory.capabilities()
    }

    fn keeper(&self) -> Option<&Keeper> {
        self.memory.keeper()
    }

    async fn acquire(&self, request: LockRequest) -> Result<Option<LockGuard>> {
        self.asked.fetch_add(1, Ordering::SeqCst);
        self.memory.acquire(request).await
    }
}

fn crowd() -> usize {
    let crowd = std::env::var("LOCK_CROWD").ok();
    crowd.map_or(2_000, |crowd| crowd.parse().expect("a number"))
}

/// Returns the resident memory of this process in bytes; zero where `/proc` has no figure.
fn resident() -> usize {
    let statm = std::fs::read_to_string("/proc/self/statm").unwrap_or_default();
    let pages = statm.split(' ').nth(1).and_then(|pages| pages.parse().ok());
    pages.unwrap_or(0_usize) * 4096
}

/// Returns the memory that `many` tasks take that wait on a [`Notify`], in bytes.
async fn bare_tasks(many: usize) -> usize {
    let notify = Arc::new(Notify::new());
    let before = resident();
    let mut tasks = JoinSet::new();
    for _ in 0..many {
        let notify = Arc::clone(&notify);
        tasks.spawn(async move { notify.notified().await });
    }
    sleep(Duration::from_millis(200)).await;
    let taken = resident().saturating_sub(before);
    // Keep the tasks: the waiters must not reuse their memory.
    std::mem::forget(tasks);
    taken
}

async fn try_crowd(mode: Mode, many: usize) {
    let store = Arc::new(Counted {
        memory: MemoryLock::new(),
        asked: AtomicUsize::new(0),
    });
    let locks = HandOff::new(Arc::<Counted>::clone(&store), HandOff::DEFAULT_BUDGET);
    let request = LockRequest::new("crowd".try_into().expect("a key"), mode);
    let other = store.memory.new_client();
    let exclusive = LockRequest::new(request.key.clone(), Mode::Exclusive);
    let held = other
        .acquire(exclusive)
        .await
        .expect("memory does not fail")
        .expect("it is free");

    let bare = bare_tasks(many).await;
    let before = resident();
    let mut waiting = JoinSet::new();
    for _ in 0..many {
        let (locks, request) = (locks.clone(), request.clone());
        waiting.spawn(async move {
            let guard: LockGuard = locks
                .acquire(request)
                .await
                .expect("memory does not fail")
                .expect("it waits for ever");
            assert!(guard.is_held());
            guard.release().await.expect("it is held");
        });
    }
    sleep(Duration::from_millis(500)).await;
    let taken = resident().saturating_sub(before);
    let each = taken.saturating_sub(bare) / many;
    let asked = store.asked.load(Ordering::SeqCst);
    sleep(Duration::from_secs(1)).await;
    let idle = store.asked.load(Ordering::SeqCst) - asked;
    assert!(each <= BYTES, "{mode:?}: {each} bytes a waiter");
    assert!(
        asked <= 2 && idle <= 5,
        "{mode:?}: asked {asked} times, {idle} of them idle"
    );

    let begin = Instant::now();
    held.release().await.expect("it is held");
    let all = Duration::from_secs(5)
        + Duration::from_millis(10) * u32::try_from(many).expect("a small number");
    let served = async {
        while let Some(ended) = waiting.join_next().await {
            ended.expect("no task panics");
        }
    };
    timeout(all, served)
        .await
        .expect("fewer than 100 turns a second");
    let took = begin.elapsed();
    let asked = store.asked.load(Ordering::SeqCst);
    println!("{mode:?}: {many} waiters, {each} bytes each, served in {took:?} with {asked} claims");
    assert!(store.memory.claims().is_empty());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_crowd_costs_little_and_is_served() {
    let many = crowd();
    for mode in [
        Mode::Exclusive,
        Mode::Shared,
        Mode::permit(1).unwrap(),
        Mode::permit(100).unwrap(),
    ] {
        try_crowd(mode, many).await;
    }
}
