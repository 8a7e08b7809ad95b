//! Work that is finished also when its caller has gone.

use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll};

use tokio::runtime::Handle;

/// A future that its caller drives, which costs no task, and that is finished on a runtime if the
/// caller drops it.
///
/// One that was never polled has sent nothing, and is dropped.
pub struct Detached<T: Send + 'static> {
    work: Option<Work<T>>,
    is_begun: bool,
    runtime: Handle,
}

type Work<T> = Pin<Box<dyn Future<Output = T> + Send>>;

impl<T: Send + 'static> Detached<T> {
    /// Makes one that is finished on `runtime`.
    pub fn new(runtime: &Handle, work: impl Future<Output = T> + Send + 'static) -> Self {
        Self {
            work: Some(Box::pin(work)),
            is_begun: false,
            runtime: runtime.clone(),
        }
    }
}

impl<T: Send + 'static> Future for Detached<T> {
    type Output = T;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<T> {
        self.is_begun = true;
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
        if let Some(work) = self.work.take().filter(|_| self.is_begun) {
            self.runtime.spawn(work);
        }
    }
}

impl<T: Send + 'static> fmt::Debug for Detached<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Detached").finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::task::Waker;

    use tokio::sync::oneshot;

    #[tokio::test]
    async fn what_has_begun_is_finished_without_its_caller() {
        let (go_on, told) = oneshot::channel::<()>();
        let (end, ended) = oneshot::channel::<()>();
        let mut work = Detached::new(&Handle::current(), async move {
            told.await.unwrap();
            end.send(()).unwrap();
        });
        let context = &mut Context::from_waker(Waker::noop());
        assert!(Pin::new(&mut work).poll(context).is_pending());
        drop(work);
        go_on.send(()).unwrap();
        ended.await.unwrap();
    }

    #[tokio::test]
    async fn what_has_not_begun_is_dropped() {
        let (sender, receiver) = oneshot::channel::<()>();
        drop(Detached::new(&Handle::current(), async move {
            sender.send(()).unwrap();
        }));
        assert!(receiver.await.is_err());
    }
}
