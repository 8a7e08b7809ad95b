//! Work that goes on when nobody waits for it any more.

use std::pin::Pin;
use std::task::{Context, Poll};

use tokio::runtime::Handle;

/// Runs with whoever waits for it, which costs no task; dropping it before its end does not stop it: the
/// rest is done on `runtime`.
pub(crate) struct Detached<T: Send + 'static> {
    work: Option<Work<T>>,
    begun: bool,
    runtime: Handle,
}

type Work<T> = Pin<Box<dyn Future<Output = T> + Send>>;

impl<T: Send + 'static> Detached<T> {
    pub(crate) fn new(runtime: &Handle, work: impl Future<Output = T> + Send + 'static) -> Self {
        Self {
            work: Some(Box::pin(work)),
            begun: false,
            runtime: runtime.clone(),
        }
    }
}

impl<T: Send + 'static> Future for Detached<T> {
    type Output = T;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<T> {
        self.begun = true;
        let work = self.work.as_mut().expect("polled after its end");
        let outcome = work.as_mut().poll(context);
        if outcome.is_ready() {
            self.work = None;
        }
        outcome
    }
}

impl<T: Send + 'static> Drop for Detached<T> {
    fn drop(&mut self) {
        // What was never begun may as well not be done.
        if let Some(work) = self.work.take().filter(|_| self.begun) {
            self.runtime.spawn(work);
        }
    }
}
