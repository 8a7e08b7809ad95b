//! The health of a client and of its store.

use std::collections::BTreeMap;
use std::time::Duration;

use crate::{Error, ErrorKind, Result};

/// The health of a client and of its store, from [`DistributedLock::health`].
///
/// [`DistributedLock::health`]: crate::DistributedLock::health
///
/// ```
/// use lock_core::{DistributedLock, DistributedLockExt, MemoryLock};
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> lock_core::Result<()> {
/// let locks = MemoryLock::new();
/// let guard = locks.lock("nightly-report").await?;
/// let health = locks.health().await;
/// assert!(health.is_reachable());
/// assert_eq!((health.holds, health.waiters), (Some(1), Some(0)));
/// # drop(guard);
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Health {
    /// The time of one round trip to the store, or the error of a store that did not answer.
    ///
    /// It contains the opening of a connection, if there was none. The error is
    /// [`Unsupported`](ErrorKind::Unsupported) if the backend cannot tell.
    pub latency: Result<Duration>,
    /// The number of holds on the store; `None` if unknown. Readers that share a grant count once.
    pub holds: Option<usize>,
    /// The number of requests that may wait and have no answer yet; `None` if unknown.
    pub waiters: Option<usize>,
    /// The longest time since a hold was granted or its last renewal confirmed; `None` without a
    /// hold, or if unknown.
    ///
    /// A third of the ttl is usual; at the ttl the hold is lost.
    pub oldest_renewal: Option<Duration>,
    /// The health of each store, for a client of several; else empty.
    pub stores: BTreeMap<String, Health>,
}

impl Health {
    /// Creates the health of a client of which only the round trip is known.
    pub fn new(latency: Result<Duration>) -> Self {
        Self {
            latency,
            holds: None,
            waiters: None,
            oldest_renewal: None,
            stores: BTreeMap::new(),
        }
    }

    /// Creates the health of a client that cannot tell.
    pub fn unknown() -> Self {
        Self::new(Err(Error::new(
            ErrorKind::Unsupported,
            "health is not supported by this backend: try a lock",
        )))
    }

    /// Creates the health of a client of several `stores`: the worst of their round trips and
    /// renewals, and the sums of their holds and waiters.
    ///
    /// One store that does not answer makes the client unreachable. A number is unknown if it is
    /// for one store.
    pub fn of_all(stores: BTreeMap<String, Self>) -> Self {
        let all = || stores.values();
        let latencies: Result<Vec<Duration>> = all().map(|one| one.latency.clone()).collect();
        Self {
            latency: latencies.map(|all| all.into_iter().max().unwrap_or_default()),
            holds: all().map(|one| one.holds).sum(),
            waiters: all().map(|one| one.waiters).sum(),
            oldest_renewal: all().filter_map(|one| one.oldest_renewal).max(),
            stores,
        }
    }

    /// Returns true if the store answered.
    pub fn is_reachable(&self) -> bool {
        self.latency.is_ok()
    }

    /// Adds waiters of a layer in front of the backend.
    #[must_use]
    pub fn with_more_waiters(mut self, more: usize) -> Self {
        self.waiters = self.waiters.map(|waiters| waiters + more);
        self
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn health(latency: Result<u64>, holds: Option<usize>, oldest: Option<u64>) -> Health {
        let mut health = Health::new(latency.map(Duration::from_millis));
        (health.holds, health.waiters) = (holds, Some(1));
        health.oldest_renewal = oldest.map(Duration::from_millis);
        health
    }

    fn of_all<const N: usize>(stores: [Health; N]) -> Health {
        let names = ["a", "b", "c"].map(str::to_owned);
        Health::of_all(names.into_iter().zip(stores).collect())
    }

    #[test]
    fn several_stores_are_as_good_as_the_worst() {
        let both = of_all([
            health(Ok(3), Some(2), Some(9)),
            health(Ok(5), Some(1), None),
        ]);
        assert_eq!(both.latency.as_ref().ok(), Some(&Duration::from_millis(5)));
        assert_eq!((both.holds, both.waiters), (Some(3), Some(2)));
        assert_eq!(both.oldest_renewal, Some(Duration::from_millis(9)));
        assert_eq!(both.stores["b"].holds, Some(1));

        let gone = Error::new(ErrorKind::Unavailable, "gone");
        let broken = of_all([health(Ok(3), None, None), health(Err(gone), Some(1), None)]);
        assert!(!broken.is_reachable() && broken.stores["a"].is_reachable());
        assert_eq!((broken.holds, broken.oldest_renewal), (None, None));
    }

    #[test]
    fn what_is_unknown_stays_unknown() {
        let unknown = Health::unknown().with_more_waiters(3);
        assert_eq!(unknown.waiters, None);
        assert_eq!(unknown.latency.unwrap_err().kind(), ErrorKind::Unsupported);
    }
}
