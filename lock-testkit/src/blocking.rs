//! Blocked threads, as in applications that compute in async code.

use std::thread::park_timeout;
use std::time::Duration;

use tokio::runtime::Runtime;
use tokio::time::Instant;

/// Blocks the calling thread for `duration`, as an application that computes does.
pub fn block_thread(duration: Duration) {
    let end = Instant::now() + duration;
    while let Some(left) = end.checked_duration_since(Instant::now()) {
        park_timeout(left);
    }
}

/// Blocks all `workers` of `runtime` at the same time for `duration`, and returns afterwards.
///
/// With a current-thread runtime, it blocks the calling thread `workers` times in sequence.
///
/// # Panics
///
/// If it is called inside a runtime.
pub fn block_workers(runtime: &Runtime, workers: usize, duration: Duration) {
    let blocking: Vec<_> = (0..workers)
        .map(|_| runtime.spawn(async move { block_thread(duration) }))
        .collect();
    // A current-thread runtime runs its tasks on this thread.
    runtime.block_on(async {
        for task in blocking {
            task.await.expect("it only blocks");
        }
    });
}
