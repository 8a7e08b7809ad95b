//! A connection to a host that has several addresses.

use std::future::Future;
use std::io;
use std::net::SocketAddr;
use std::time::Duration;

use crate::backend::Clock;

/// Time that one address is tried before the next.
const ADDRESS_LIMIT: Duration = Duration::from_millis(500);

/// Connects to the first of `addresses` that answers, one after the other, each for at most 500 ms.
///
/// Trying all at once could reach a different server each time if the host has several.
///
/// ```
/// use std::io;
/// use lock_core::backend::connect_to_first;
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> io::Result<()> {
/// let addresses = ["[::1]:6379".parse().unwrap(), "127.0.0.1:6379".parse().unwrap()];
/// let open = |address: std::net::SocketAddr| async move {
///     address.is_ipv4().then_some(address.port()).ok_or(io::ErrorKind::ConnectionRefused.into())
/// };
/// assert_eq!(connect_to_first(addresses, open).await?, 6379);
/// # Ok(())
/// # }
/// ```
///
/// # Errors
///
/// The failure of the last address: that of `connect`, or `TimedOut`. `NotFound` without an
/// address.
///
/// # Cancel safety
///
/// Dropping the future drops the attempt.
pub async fn connect_to_first<S, F>(
    addresses: impl IntoIterator<Item = SocketAddr>,
    connect: impl Fn(SocketAddr) -> F,
) -> io::Result<S>
where
    F: Future<Output = io::Result<S>>,
{
    let mut failure = io::Error::new(io::ErrorKind::NotFound, "the host has no address");
    for address in addresses {
        // Real time, even on a runtime with paused time.
        let limit = Clock::Boot.now().plus(ADDRESS_LIMIT);
        let attempt = tokio::select! {
            attempt = connect(address) => attempt,
            () = Clock::Boot.sleep_until(limit) => Err(io::ErrorKind::TimedOut.into()),
        };
        match attempt {
            Ok(stream) => return Ok(stream),
            Err(error) => failure = error,
        }
    }
    Err(failure)
}
