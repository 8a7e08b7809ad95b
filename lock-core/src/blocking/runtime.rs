//! The runtime on which blocking calls run.

use std::any::Any;
use std::future::{Future, poll_fn};
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::pin::Pin;
use std::sync::mpsc::sync_channel;
use std::task::Poll;
use std::time::Duration;

use tokio::runtime::Handle;
use tokio::task::JoinSet;
use tracing::Instrument;

use crate::backend::Clock;
use crate::keeper::runtime_thread::RuntimeThread;
use crate::mutex::Mutex;
use crate::{Error, ErrorKind, HoldState, HoldWatch, LossReason, Result};

/// The thread of this process that runs the async part of blocking calls.
///
/// It is not the keeper thread: a backend that computes for long delays no renewals.
#[derive(Clone)]
pub(super) struct CallRuntime(RuntimeThread);

impl CallRuntime {
    /// Returns the runtime of this process; the first call starts its thread.
    ///
    /// # Errors
    ///
    /// [`ErrorKind::Backend`] if the operating system cannot start the thread.
    pub(super) fn of_process() -> Result<Self> {
        static CALL_THREAD: Mutex<Option<RuntimeThread>> = Mutex::new(None);

        let thread = RuntimeThread::of_process(&CALL_THREAD, "polylock-calls");
        thread.map(Self).map_err(|source| {
            let message = "cannot start the thread of blocking calls";
            Error::new(ErrorKind::Backend, message).with_source(source)
        })
    }

    /// Runs `future` on this runtime, and blocks the calling thread until it is done.
    ///
    /// # Errors
    ///
    /// The error of `future`, and [`ErrorKind::Config`] in a process forked since, and on the
    /// runtime's own thread.
    ///
    /// # Panics
    ///
    /// If `future` panics, with its payload.
    pub(super) fn run<T: Send + 'static>(
        &self,
        future: impl Future<Output = Result<T>> + Send + 'static,
    ) -> Result<T> {
        let runtime = self.0.handle().ok_or_else(forked)?;
        if Handle::try_current().is_ok_and(|current| current.id() == runtime.id()) {
            return Err(called_on_its_own_thread());
        }
        let (sender, receiver) = sync_channel(1);
        let future = Box::pin(future.in_current_span());
        runtime.spawn(async move {
            let outcome = caught(future).await;
            // The receiver waits: its thread is blocked in this call.
            let _received = sender.send(outcome);
        });
        // Not tokio's channel, which panics if it blocks a thread of a runtime.
        let outcome = receiver.recv();
        match outcome.expect("the runtime runs until the process ends") {
            Ok(outcome) => outcome,
            Err(panic) => resume_unwind(panic),
        }
    }

    /// Blocks the calling thread until one of `watches` is lost, at most `limit`. Returns its index
    /// and the reason.
    pub(super) fn wait_lost(
        &self,
        watches: &[HoldWatch],
        limit: Duration,
    ) -> Option<(usize, LossReason)> {
        let until = Clock::Boot.now().plus(limit);
        let (sender, receiver) = sync_channel(1);
        // Dropped with this call, which ends the tasks.
        let mut waiting = JoinSet::new();
        // A forked process has no such runtime. There, holds are not renewed and end in time.
        if let Some(runtime) = self.0.handle() {
            for watch in watches {
                let (watch, sender) = (watch.clone(), sender.clone());
                let notify = async move {
                    watch.lost().await;
                    let _is_first = sender.try_send(());
                };
                waiting.spawn_on(notify, runtime);
            }
        }
        loop {
            if let Some(lost) = first_lost(watches) {
                return Some(lost);
            }
            let left = until.since(Clock::Boot.now());
            if left.is_zero() {
                return None;
            }
            // This thread reads the clock itself, so that a late runtime delays no loss.
            let expiries = watches.iter().map(HoldWatch::remaining);
            let _changed = receiver.recv_timeout(expiries.min().unwrap_or(left).min(left));
        }
    }
}

fn first_lost(watches: &[HoldWatch]) -> Option<(usize, LossReason)> {
    let states = watches.iter().map(HoldWatch::state).enumerate();
    let mut losses = states.filter_map(|(index, state)| match state {
        HoldState::Lost(reason) => Some((index, reason)),
        _ => None,
    });
    losses.next()
}

/// Returns the output of `future`, or the payload of its panic; drops the future before.
async fn caught<F: Future>(mut future: Pin<Box<F>>) -> Result<F::Output, Box<dyn Any + Send>> {
    poll_fn(move |context| {
        let poll = || future.as_mut().poll(context);
        match catch_unwind(AssertUnwindSafe(poll)) {
            Ok(poll) => poll.map(Ok),
            Err(panic) => Poll::Ready(Err(panic)),
        }
    })
    .await
}

fn called_on_its_own_thread() -> Error {
    Error::new(
        ErrorKind::Config,
        "a blocking call came from the thread of blocking calls, and would wait for itself: use the async API there",
    )
}

fn forked() -> Error {
    Error::new(
        ErrorKind::Config,
        "this client was made before its process forked, and makes no calls in the new process: make a client there",
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{DistributedLock, LockRequest, MemoryLock};

    #[test]
    fn a_forked_process_gets_errors_and_notices_losses() {
        let runtime = CallRuntime::of_process().unwrap();
        let request = LockRequest::exclusive("k").unwrap();
        let locks = MemoryLock::new();
        let request = request.holding_at_most(Duration::from_millis(50));
        let taken = runtime.run(async move { locks.acquire(request).await });
        let guard = taken.unwrap().expect("free");

        let forked = CallRuntime(runtime.0.after_fork());
        let error = forked.run(async { Ok(()) }).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Config);
        assert!(error.to_string().contains("forked"), "{error}");
        let (began, limit) = (Clock::Boot.now(), Duration::from_secs(20));
        let lost = forked.wait_lost(&[guard.watch()], limit);
        assert_eq!(lost, Some((0, LossReason::TooLong)));
        assert!(Clock::Boot.now().since(began) < limit / 2);
    }

    #[test]
    fn a_panic_reaches_the_caller() {
        let runtime = CallRuntime::of_process().unwrap();
        let call = || runtime.run::<()>(async { panic!("at the backend") });
        let panic = catch_unwind(AssertUnwindSafe(call)).unwrap_err();
        assert_eq!(panic.downcast_ref(), Some(&"at the backend"));
    }
}
