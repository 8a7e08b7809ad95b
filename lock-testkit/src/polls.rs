//! Futures that are dropped in the middle, which is what cancellation is.

use std::future::{Future, poll_fn};
use std::task::Poll;
use std::time::Duration;

use tokio::time::{sleep, timeout};

/// Polls `future` at most `times` times, each time it asks for it, and drops it unless that
/// completed it. A future that does not ask any more is dropped after `patience`.
///
/// Returns what it came to, if it did.
pub async fn poll_times<F: Future>(
    future: F,
    times: usize,
    patience: Duration,
) -> Option<F::Output> {
    poll_times_and_rest(future, times, patience, Duration::ZERO).await
}

/// The same, and lets `rest` pass before it drops the future: what the last poll sent is on its way
/// by then, or answered.
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
    // Sleeping for no time at all takes a millisecond.
    if output.is_none() && !rest.is_zero() {
        sleep(rest).await;
    }
    output
}
