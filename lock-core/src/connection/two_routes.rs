//! Releases over two connections.

use std::future::Future;
use std::pin::pin;
use std::time::Duration;

use tokio::runtime::Handle;

use crate::backend::{Deadlines, Released};

/// The two connections of a release: that of its take, whose runtime may not be driven, and
/// another.
///
/// ```
/// use std::time::Duration;
/// use lock_core::backend::{Deadlines, KeeperRuntime, Released, TwoRoutes};
/// use tokio::runtime::Handle;
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() {
/// let (deadlines, runtime) = (Deadlines::new(KeeperRuntime::caller()), Handle::current());
/// let routes = TwoRoutes {
///     deadlines: &deadlines,
///     runtime: &runtime,
///     head_start: Duration::from_millis(5),
///     limit: Duration::from_secs(1),
/// };
/// let silent = std::future::pending::<Result<Released, ()>>();
/// let elsewhere = async || Ok(Released::Released);
/// let released = routes.release(silent, |()| true, elsewhere).await;
/// assert_eq!(released, Ok(Released::Released));
/// # }
/// ```
#[derive(Clone, Copy, Debug)]
pub struct TwoRoutes<'a> {
    /// The timeouts of the client's requests.
    pub deadlines: &'a Deadlines,
    /// The runtime that drives the first connection.
    pub runtime: &'a Handle,
    /// Time that the first connection has for its answer before the other is used, too.
    pub head_start: Duration,
    /// Time for a late answer of the first connection, if the other has found nothing.
    pub limit: Duration,
}

impl TwoRoutes<'_> {
    /// Releases by `here`, and by `elsewhere` if `here` is late or fails with a retryable error.
    ///
    /// A route that found no claim may have lost the race, so the answer of the other decides.
    ///
    /// # Errors
    ///
    /// The error of `elsewhere` if neither route was answered, and any other error of `here`.
    ///
    /// # Cancel safety
    ///
    /// Dropping the future drops both routes.
    pub async fn release<E, F>(
        self,
        here: impl Future<Output = Result<Released, E>>,
        is_retryable: impl FnOnce(&E) -> bool,
        elsewhere: impl FnOnce() -> F,
    ) -> Result<Released, E>
    where
        F: Future<Output = Result<Released, E>>,
    {
        let mut here = pin!(here);
        let first = self.deadlines.timeout(self.head_start, here.as_mut());
        match first.await {
            Some(Err(error)) if is_retryable(&error) => return elsewhere().await,
            Some(outcome) => return outcome,
            None => {}
        }
        let mut elsewhere = pin!(elsewhere());
        tokio::select! {
            outcome = here.as_mut() => match outcome {
                Ok(Released::Released) => outcome,
                Ok(Released::AlreadyLost) => elsewhere.await.or(outcome),
                Err(_) => elsewhere.await,
            },
            outcome = elsewhere.as_mut() => match outcome {
                Ok(Released::Released) => outcome,
                Ok(Released::AlreadyLost) | Err(_) => {
                    let (limit, runtime) = (self.limit, self.runtime);
                    let late = self.deadlines.timeout_while_driven(limit, runtime, here);
                    match late.await {
                        Some(Ok(released)) => Ok(released),
                        Some(Err(_)) | None => outcome,
                    }
                }
            },
        }
    }
}

#[cfg(test)]
mod tests {
    use std::future::pending;

    use tokio::runtime::Builder;
    use tokio::sync::oneshot;

    use super::*;
    use crate::backend::KeeperRuntime;

    type Outcome = Result<Released, &'static str>;

    const REMOVED: Outcome = Ok(Released::Released);
    const GONE: Outcome = Ok(Released::AlreadyLost);

    async fn release(
        runtime: &Handle,
        here: impl Future<Output = Outcome>,
        elsewhere: impl Future<Output = Outcome>,
    ) -> Outcome {
        let deadlines = Deadlines::new(KeeperRuntime::caller());
        let routes = TwoRoutes {
            deadlines: &deadlines,
            runtime,
            head_start: Duration::from_millis(5),
            limit: Duration::from_secs(60),
        };
        let is_retryable = |error: &&str| *error == "cut";
        routes.release(here, is_retryable, || elsewhere).await
    }

    #[tokio::test]
    async fn the_first_answer_in_time_counts() {
        let runtime = Handle::current();
        let never = || async { panic!("it is not needed") };
        assert_eq!(release(&runtime, async { GONE }, never()).await, GONE);
        let denied = release(&runtime, async { Err("denied") }, never());
        assert_eq!(denied.await, Err("denied"));
        let cut = release(&runtime, async { Err("cut") }, async { REMOVED });
        assert_eq!(cut.await, REMOVED);
    }

    #[tokio::test]
    async fn a_route_that_found_nothing_waits_for_the_other() {
        let runtime = Handle::current();
        let (end, ended) = oneshot::channel::<()>();
        let here = async {
            ended.await.unwrap();
            REMOVED
        };
        let elsewhere = async {
            end.send(()).unwrap();
            GONE
        };
        assert_eq!(release(&runtime, here, elsewhere).await, REMOVED);

        let (end, ended) = oneshot::channel::<()>();
        let here = async {
            tokio::time::sleep(Duration::from_millis(20)).await;
            end.send(()).unwrap();
            GONE
        };
        let elsewhere = async {
            ended.await.unwrap();
            REMOVED
        };
        assert_eq!(release(&runtime, here, elsewhere).await, REMOVED);
    }

    #[tokio::test]
    async fn a_runtime_that_is_not_driven_is_not_waited_for() {
        let asleep = Builder::new_current_thread().build().unwrap();
        for answer in [GONE, Err("no answer")] {
            let released = release(asleep.handle(), pending(), async { answer });
            assert_eq!(released.await, answer);
        }
        asleep.shutdown_background();
    }
}
