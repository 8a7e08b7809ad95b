//! Futures that are dropped after some polls, which is how tasks are cancelled.

use std::future::{Future, poll_fn};
use std::task::Poll;
use std::time::Duration;

use tokio::time::{sleep, timeout};

/// Polls `future` at most `times` times and returns its output, or drops it.
///
/// After the first poll, each poll follows a wake-up. A future that does not complete within
/// `patience` is dropped, too.
///
/// # Cancel safety
///
/// Dropping the future drops `future`.
///
/// # Examples
///
/// ```
/// use std::time::Duration;
/// use lock_testkit::poll_times;
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() {
/// let patience = Duration::from_secs(1);
/// assert_eq!(poll_times(tokio::task::yield_now(), 1, patience).await, None);
/// assert_eq!(poll_times(tokio::task::yield_now(), 2, patience).await, Some(()));
/// # }
/// ```
pub async fn poll_times<F: Future>(
    future: F,
    times: usize,
    patience: Duration,
) -> Option<F::Output> {
    poll_times_and_rest(future, times, patience, Duration::ZERO).await
}

/// Like [`poll_times`], but waits for `rest` before it drops the future.
///
/// By then the request of the last poll is on its way, or answered.
pub(crate) async fn poll_times_and_rest<F: Future>(
    future: F,
    times: usize,
    patience: Duration,
    rest: Duration,
) -> Option<F::Output> {
    let mut future = Box::pin(future);
    let mut polls = 0;
    let polling = poll_fn(|context| {
        if polls == times {
            return Poll::Ready(None);
        }
        polls += 1;
        match future.as_mut().poll(context) {
            Poll::Ready(output) => Poll::Ready(Some(output)),
            Poll::Pending if polls == times => Poll::Ready(None),
            Poll::Pending => Poll::Pending,
        }
    });
    let output = timeout(patience, polling).await.ok().flatten();
    // A sleep of zero takes a millisecond.
    if output.is_none() && !rest.is_zero() {
        sleep(rest).await;
    }
    output
}
