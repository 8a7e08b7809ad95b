//! The work of a leader, which is dropped before its term ends.

use std::future::{Future, poll_fn};
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Poll};
use std::time::Duration;

use tokio::runtime::Handle;
use tokio::sync::Notify;

use crate::mutex::Mutex;
use crate::{HoldWatch, LockGuard};

/// The work of one term. The task that leads polls it. The keeper drops it if that task does not,
/// for example because its worker thread is blocked.
struct Led<F> {
    /// Locked while it is polled.
    work: Mutex<Option<Pin<Box<F>>>>,
    /// True once the work may not be polled any more.
    is_over: AtomicBool,
    over: Notify,
    /// The runtime of the work, on which its drop may start tasks.
    runtime: Handle,
}

impl<F: Future> Led<F> {
    /// Polls the work; `None` once it is over.
    fn poll(&self, held: &HoldWatch, context: &mut Context<'_>) -> Poll<Option<F::Output>> {
        let mut work = self.work.lock();
        // Reading the clock ends a hold whose deadline has passed.
        if !held.is_held() || self.is_over.load(Ordering::SeqCst) {
            *work = None;
        }
        let Some(polled) = work.as_mut() else {
            return Poll::Ready(None);
        };
        let output = polled.as_mut().poll(context);
        drop(work);
        // The keeper may have found the work locked.
        if output.is_pending() && self.is_over.load(Ordering::SeqCst) {
            self.drop_work();
            return Poll::Ready(None);
        }
        output.map(Some)
    }

    /// Drops the work, unless it is being polled; the poll then drops it.
    fn drop_work(&self) {
        self.is_over.store(true, Ordering::SeqCst);
        let work = self.work.try_lock().and_then(|mut work| work.take());
        let _context = self.runtime.enter();
        drop(work);
    }
}

/// Runs `work` while `guard` is held for more than `margin`; `None` if that ended first. Then the
/// work was dropped.
pub(super) async fn run_work<F>(guard: &LockGuard, margin: Duration, work: F) -> Option<F::Output>
where
    F: Future + Send + 'static,
{
    let led = Arc::new(Led {
        work: Mutex::new(Some(Box::pin(work))),
        is_over: AtomicBool::new(false),
        over: Notify::new(),
        runtime: Handle::current(),
    });
    let held = guard.watch();
    guard.spawn_on_keeper(end_in_time(Arc::clone(&led), held.clone(), margin));
    let _on_cancel = DropWork(&*led);
    let mut over = std::pin::pin!(led.over.notified());
    poll_fn(|context| {
        // Registered before the work is polled, so that no end is missed.
        let is_over = over.as_mut().poll(context).is_ready();
        match led.poll(&held, context) {
            Poll::Pending if is_over => Poll::Ready(None),
            polled => polled,
        }
    })
    .await
}

/// Drops the work with the future that runs it.
struct DropWork<'a, F: Future>(&'a Led<F>);

impl<F: Future> Drop for DropWork<'_, F> {
    fn drop(&mut self) {
        self.0.drop_work();
    }
}

/// Ends the work once less than `margin` of its hold remains.
async fn end_in_time<F: Future>(led: Arc<Led<F>>, held: HoldWatch, margin: Duration) {
    let mut left = held.remaining().saturating_sub(margin);
    while !left.is_zero() {
        tokio::select! {
            _reason = held.lost() => break,
            () = tokio::time::sleep(left) => {}
        }
        left = held.remaining().saturating_sub(margin);
    }
    led.is_over.store(true, Ordering::SeqCst);
    led.over.notify_one();
    // The leading task drops the work itself, unless its worker is blocked.
    tokio::select! {
        _reason = held.lost() => {}
        () = tokio::time::sleep(margin / 2) => {}
    }
    led.drop_work();
}
