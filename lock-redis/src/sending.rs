//! When a request has been given to the driver.

use std::future::{Future, poll_fn};
use std::pin::{Pin, pin};
use std::task::Poll;

use tokio::task::coop::unconstrained;

/// Polls `request` once, which gives it to the driver.
///
/// That has room for it (`link::ROOM`), so that none that comes later is before it. Tokio's budget for a turn must not
/// put it off.
pub(crate) async fn first_poll<F: Future>(mut request: Pin<&mut F>) -> Poll<F::Output> {
    unconstrained(poll_fn(|context| {
        Poll::Ready(request.as_mut().poll(context))
    }))
    .await
}

/// Awaits `request`, and does `then` as soon as it has been sent.
pub(crate) async fn once_sent<F: Future>(request: F, then: impl FnOnce()) -> F::Output {
    let mut request = pin!(request);
    let first = first_poll(request.as_mut()).await;
    then();
    match first {
        Poll::Ready(output) => output,
        Poll::Pending => request.await,
    }
}
