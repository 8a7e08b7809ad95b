//! How to wait in a test: on a predicate, with a limit.

use std::future::Future;
use std::time::Duration;

use tokio::time::{Instant, sleep, timeout};

/// Waits until `predicate` is true.
///
/// # Panics
///
/// When it is not within `limit`, saying `what` was waited for.
///
/// # Cancel safety
///
/// Dropping the future drops the predicate's.
///
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

/// Waits until `predicate` is true, at most for `limit`; returns whether it is.
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

/// The output of `future`, which has to be there within `limit`.
pub(crate) async fn within<F: Future>(limit: Duration, what: &str, future: F) -> F::Output {
    match timeout(limit, future).await {
        Ok(output) => output,
        Err(_) => panic!("not within {limit:?}: {what}"),
    }
}
