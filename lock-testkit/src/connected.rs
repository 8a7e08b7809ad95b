//! How to connect in a test that is not about connecting.

use std::future::Future;
use std::time::Duration;

use lock_core::{ErrorKind, Result};
use tokio::time::{Instant, sleep};

/// The time that a server may take on a machine where many tests start servers at once.
const LIMIT: Duration = Duration::from_secs(30);

const PAUSE: Duration = Duration::from_millis(50);

/// Connects to a server that runs, and tries again for 30 seconds while it is
/// [`Unavailable`](ErrorKind::Unavailable): beside many other tests a server may be too slow for
/// the limits of a client.
///
/// # Panics
///
/// On any other error, and when the server is unavailable for longer.
///
/// # Cancel safety
///
/// Dropping the future drops the one of `connect`.
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
