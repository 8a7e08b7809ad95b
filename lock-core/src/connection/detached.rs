//! Work that completes even if its caller is dropped.

use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll};

use tokio::runtime::Handle;

/// A future that its caller polls, and that a runtime completes if the caller drops it.
///
/// It costs no task unless it is dropped early. A future that was never polled has sent nothing,
/// and is just dropped.
///
/// ```
/// use lock_core::backend::Detached;
/// use tokio::runtime::Handle;
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() {
/// let work = Detached::new(&Handle::current(), async { 42 });
/// assert_eq!(work.await, 42);
/// # }
/// ```
pub struct Detached<T: Send + 'static> {
    work: Option<DetachedWork<T>>,
    is_begun: bool,
    runtime: Handle,
    finish: Option<Finish<T>>,
}

/// The rest of a [`Detached`] future.
pub type DetachedWork<T> = Pin<Box<dyn Future<Output = T> + Send>>;

type Finish<T> = Box<dyn FnOnce(DetachedWork<T>) -> DetachedWork<()> + Send>;

impl<T: Send + 'static> Detached<T> {
    /// Creates a future that `runtime` completes if it is dropped early.
    pub fn new(runtime: &Handle, work: impl Future<Output = T> + Send + 'static) -> Self {
        Self {
            work: Some(Box::pin(work)),
            is_begun: false,
            runtime: runtime.clone(),
            finish: None,
        }
    }

    /// Replaces the completion by the future that `finish` makes of the rest of the work.
    ///
    /// `finish` is called in the drop, so what it does counts before the caller goes on.
    #[must_use]
    pub fn finished_by<F>(
        mut self,
        finish: impl FnOnce(DetachedWork<T>) -> F + Send + 'static,
    ) -> Self
    where
        F: Future<Output = ()> + Send + 'static,
    {
        self.finish = Some(Box::new(|work| Box::pin(finish(work))));
        self
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
        let Some(work) = self.work.take().filter(|_| self.is_begun) else {
            return;
        };
        let work: DetachedWork<()> = match self.finish.take() {
            Some(finish) => finish(work),
            None => Box::pin(async { drop(work.await) }),
        };
        self.runtime.spawn(work);
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
    async fn the_rest_of_the_work_goes_to_what_finishes_it() {
        let (end, ended) = oneshot::channel();
        let (go_on, told) = oneshot::channel::<u8>();
        let mut work = Detached::new(&Handle::current(), told).finished_by(|rest| async move {
            end.send(rest.await).unwrap();
        });
        let context = &mut Context::from_waker(Waker::noop());
        assert!(Pin::new(&mut work).poll(context).is_pending());
        drop(work);
        go_on.send(42).unwrap();
        assert_eq!(ended.await.unwrap(), Ok(42));
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
