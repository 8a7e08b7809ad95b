//! When a request has been given to the driver.

use std::future::{Future, poll_fn};
use std::pin::Pin;
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
