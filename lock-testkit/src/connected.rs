//! Patient connecting, for tests that are not about connecting.

use std::future::Future;
use std::time::Duration;

use lock_core::{ErrorKind, Result};
use tokio::time::{Instant, sleep};

/// Maximum time for a server to become available while many tests start servers.
const LIMIT: Duration = Duration::from_secs(30);

const PAUSE: Duration = Duration::from_millis(50);

/// Connects to a server that runs; tries again for 30 seconds while it is unavailable.
///
/// While many tests run, a server may be too slow for the time limits of a client.
///
/// # Cancel safety
///
/// Dropping the future drops the future of `connect`.
///
/// # Panics
///
/// - If the server is [`Unavailable`](ErrorKind::Unavailable) for longer than 30 seconds.
/// - If `connect` returns any other error.
///
/// # Examples
///
/// ```
/// # use lock_core::{MemoryLock, Result};
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() {
/// # async fn connect(_url: &str) -> Result<MemoryLock> { Ok(MemoryLock::new()) }
/// let locks = lock_testkit::connected(|| connect("redis://127.0.0.1")).await;
/// # drop(locks);
/// # }
/// ```
pub async fn connected<L, F>(mut connect: impl FnMut() -> F) -> L
where
    F: Future<Output = Result<L>>,
{
    let end = Instant::now() + LIMIT;
    loop {
        match connect().await {
            Ok(locks) => return locks,
            Err(error) if error.kind() == ErrorKind::Unavailable && Instant::now() < end => {
                sleep(PAUSE).await;
            }
            Err(error) => panic!("cannot connect, although the server runs: {error}"),
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
        let connection = connected(|| {
            let answer = kinds
                .next()
                .map_or(Ok(42), |kind| Err(Error::new(kind, "busy")));
            async move { answer }
        });
        assert_eq!(connection.await, 42);
    }

    #[tokio::test(start_paused = true)]
    #[should_panic(expected = "wrong password")]
    async fn a_refusal_fails_at_once() {
        connected(|| async { Err::<(), _>(Error::new(ErrorKind::Denied, "wrong password")) }).await;
    }
}
