//! Work that is dropped when its lock is lost.

use std::future::{Future, poll_fn};
use std::pin::pin;
use std::task::Poll;

use crate::{
    DistributedLock, Error, ErrorKind, HoldWatch, LockGuard, LockRequest, LossReason, Result,
};

pub(crate) async fn with_lock<L, W, F>(
    locks: &L,
    request: LockRequest,
    work: W,
) -> Result<Option<F::Output>>
where
    L: DistributedLock + ?Sized,
    W: FnOnce(HoldWatch) -> F,
    F: Future,
{
    let Some(guard) = locks.acquire(request).await? else {
        return Ok(None);
    };
    let output = match run_while_held(&guard, work(guard.watch())).await {
        Ok(output) => output,
        Err(reason) => {
            let error = Error::new(
                ErrorKind::Lost,
                format!("the lock was lost during the work, which was stopped: {reason}"),
            );
            return Err(error.with_key(guard.key()));
        }
    };
    let key = guard.key().clone();
    if let Err(error) = guard.release().await {
        tracing::warn!(%key, %error, "work done, release not confirmed");
    }
    Ok(Some(output))
}

/// Polls `work` only while the lock is held, and drops it as soon as it is not.
async fn run_while_held<F: Future>(guard: &LockGuard, work: F) -> Result<F::Output, LossReason> {
    let mut work = pin!(work);
    let mut lost = pin!(guard.lost());
    poll_fn(|context| {
        // Looking at the clock ends a hold whose deadline has passed, also when the timer that
        // would have told so is late.
        guard.is_held();
        match lost.as_mut().poll(context) {
            Poll::Ready(reason) => Poll::Ready(Err(reason)),
            Poll::Pending => work.as_mut().poll(context).map(Ok),
        }
    })
    .await
}
