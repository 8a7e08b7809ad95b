//! Applications that block where they should not.

use std::thread::park_timeout;
use std::time::Duration;

use tokio::runtime::Runtime;
use tokio::time::Instant;

/// Blocks the calling thread for `duration`, as an application does that computes.
pub fn block_thread(duration: Duration) {
    let end = Instant::now() + duration;
    while let Some(left) = end.checked_duration_since(Instant::now()) {
        park_timeout(left);
    }
}

/// Blocks all `workers` of `runtime` at once for `duration`, and returns when that is over. In a runtime
/// without workers of its own the calling thread is blocked as many times, one after the other.
///
/// # Panics
///
/// Inside of a runtime.
pub fn block_workers(runtime: &Runtime, workers: usize, duration: Duration) {
    let blocking: Vec<_> = (0..workers)
        .map(|_| runtime.spawn(async move { block_thread(duration) }))
        .collect();
    // A runtime with one thread runs its tasks on this one.
    runtime.block_on(async {
        for task in blocking {
            task.await.expect("it only blocks");
        }
    });
}
