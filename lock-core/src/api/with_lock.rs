//! Work that is stopped when its lock is lost.

use std::future::{Future, poll_fn};
use std::pin::pin;
use std::task::Poll;

use crate::backend::Released;
use crate::{
    DistributedLock, Error, ErrorKind, HoldState, HoldWatch, LockGuard, LockKey, LockRequest,
    LossReason, Result,
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
    match locks.acquire(request).await? {
        Some(guard) => with_guard(guard, work).await.map(Some),
        None => Ok(None),
    }
}

/// Runs `work` while `guard` is held, and releases it afterwards.
pub(crate) async fn with_guard<W, F>(guard: LockGuard, work: W) -> Result<F::Output>
where
    W: FnOnce(HoldWatch) -> F,
    F: Future,
{
    let output = match run_while_held(&guard, work(guard.watch())).await {
        Ok(output) => output,
        Err(reason) => {
            let message = "the lock was lost during the work, which was stopped";
            return Err(lost(guard.key(), message, reason));
        }
    };
    finish(guard).await?;
    Ok(output)
}

/// Releases `guard` when its work is done.
///
/// # Errors
///
/// [`Lost`](ErrorKind::Lost) if the lock was lost before, or if the release finds no claim.
pub(crate) async fn finish(guard: LockGuard) -> Result<()> {
    let (key, watch) = (guard.key().clone(), guard.watch());
    // The work's last step may have blocked beyond the end of the hold.
    if let HoldState::Lost(reason) = watch.state() {
        let message = "the lock was lost before the work was done";
        return Err(lost(&key, message, reason));
    }
    match guard.release().await {
        // A hold that expired after the check above was held while the work ran. A claim removed on
        // the store may have been gone before the work was done.
        Ok(Released::AlreadyLost) if !has_expired(&watch) => {
            let message = "the work is done, but perhaps not under the lock";
            Err(lost(&key, message, LossReason::Removed))
        }
        Ok(_) => Ok(()),
        Err(error) => {
            tracing::warn!(%key, %error, "work done, release not confirmed");
            Ok(())
        }
    }
}

fn lost(key: &LockKey, message: &str, reason: LossReason) -> Error {
    Error::new(ErrorKind::Lost, format!("{message}: {reason}")).with_key(key)
}

fn has_expired(watch: &HoldWatch) -> bool {
    matches!(
        watch.state(),
        HoldState::Lost(LossReason::Expired | LossReason::TooLong | LossReason::Closed)
    )
}

/// Polls `work` only while the lock is held, and drops it as soon as it is not.
async fn run_while_held<F: Future>(guard: &LockGuard, work: F) -> Result<F::Output, LossReason> {
    let mut work = pin!(work);
    let mut lost = pin!(guard.lost());
    poll_fn(|context| {
        // Reading the clock ends a hold whose deadline has passed, even if its timer is late.
        guard.is_held();
        match lost.as_mut().poll(context) {
            Poll::Ready(reason) => Poll::Ready(Err(reason)),
            Poll::Pending => work.as_mut().poll(context).map(Ok),
        }
    })
    .await
}
