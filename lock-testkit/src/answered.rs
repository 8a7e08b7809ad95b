//! Patient requests, for tests that are not about a server's time to answer.

use std::future::Future;
use std::time::Duration;

use lock_core::{ErrorKind, Result};
use tokio::time::{Instant, sleep};

/// Maximum time for a server to become available while many tests start servers.
const LIMIT: Duration = Duration::from_secs(30);

const PAUSE: Duration = Duration::from_millis(50);

/// Sends a request to a server that runs; repeats it for 30 seconds while the server is
/// unavailable.
///
/// While many tests run, a server may be too slow for the time limits of a client.
///
/// # Cancel safety
///
/// Dropping the future drops the future of `request`.
///
/// # Panics
///
/// - If the server is [`Unavailable`](ErrorKind::Unavailable) for longer than 30 seconds.
/// - If `request` returns any other error.
///
/// # Examples
///
/// ```
/// # use lock_core::{MemoryLock, Result};
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() {
/// # async fn connect(_url: &str) -> Result<MemoryLock> { Ok(MemoryLock::new()) }
/// let locks = lock_testkit::answered(|| connect("redis://127.0.0.1")).await;
/// # drop(locks);
/// # }
/// ```
pub async fn answered<T, F>(mut request: impl FnMut() -> F) -> T
where
    F: Future<Output = Result<T>>,
{
    let end = Instant::now() + LIMIT;
    loop {
        match request().await {
            Ok(answer) => return answer,
            Err(error) if error.kind() == ErrorKind::Unavailable && Instant::now() < end => {
                sleep(PAUSE).await;
            }
            Err(error) => panic!("no answer, although the server runs: {error}"),
        }
    }
}

#[cfg(test)]
mod tests {
    use lock_core::Error;

    use super::*;

    #[tokio::test(start_paused = true)]
    async fn only_an_unavailable_server_is_tried_again() {
        let mut kinds = [ErrorKind::Unavailable, ErrorKind::Unavailable].into_iter();
        let answer = answered(|| {
            let answer = kinds
                .next()
                .map_or(Ok(42), |kind| Err(Error::new(kind, "busy")));
            async move { answer }
        });
        assert_eq!(answer.await, 42);
    }

    #[tokio::test(start_paused = true)]
    #[should_panic(expected = "wrong password")]
    async fn a_refusal_fails_at_once() {
        answered(|| async { Err::<(), _>(Error::new(ErrorKind::Denied, "wrong password")) }).await;
    }
}
