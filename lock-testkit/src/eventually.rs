//! Waiting for a predicate in a test, with a limit.

use std::future::Future;
use std::time::Duration;

use tokio::time::{Instant, sleep, timeout};

/// Waits until `predicate` is true, calling it every 1 to 20 ms.
///
/// # Cancel safety
///
/// Dropping the future drops the future of `predicate`.
///
/// # Panics
///
/// If `predicate` is not true within `limit`. The message contains `what`.
///
/// # Examples
/// ```
/// use std::sync::atomic::{AtomicU32, Ordering};
/// use std::time::Duration;
/// use lock_testkit::eventually;
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() {
/// let turns = AtomicU32::new(0);
/// eventually(Duration::from_secs(1), "the third turn", || async {
///     turns.fetch_add(1, Ordering::Relaxed) == 2
/// })
/// .await;
/// # }
/// ```
pub async fn eventually<P, F>(limit: Duration, what: &str, predicate: P)
where
    P: FnMut() -> F,
    F: Future<Output = bool>,
{
    assert!(
        becomes_true(limit, predicate).await,
        "not within {limit:?}: {what}"
    );
}

/// Returns true once `predicate` is true, or false after `limit`.
pub(crate) async fn becomes_true<P, F>(limit: Duration, mut predicate: P) -> bool
where
    P: FnMut() -> F,
    F: Future<Output = bool>,
{
    let end = Instant::now() + limit;
    let mut pause = Duration::from_millis(1);
    while !predicate().await {
        if end <= Instant::now() {
            return false;
        }
        sleep(pause).await;
        pause = (pause * 2).min(Duration::from_millis(20));
    }
    true
}

/// Returns the output of `future`; panics if it takes longer than `limit`.
pub(crate) async fn within<F: Future>(limit: Duration, what: &str, future: F) -> F::Output {
    match timeout(limit, future).await {
        Ok(output) => output,
        Err(_) => panic!("not within {limit:?}: {what}"),
    }
}
