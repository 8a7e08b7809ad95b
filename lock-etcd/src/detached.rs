//! Work that is finished even if its caller is dropped.

use std::pin::Pin;
use std::task::{Context, Poll};

use tokio::runtime::Handle;

/// A future that its caller drives, which costs no task. If it is dropped before its end, the rest
/// of it runs on `runtime`.
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
        // Work that was never polled has sent nothing, and is dropped.
        if let Some(work) = self.work.take().filter(|_| self.begun) {
            self.runtime.spawn(work);
        }
    }
}
