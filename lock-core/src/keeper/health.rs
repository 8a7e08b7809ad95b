//! The health of a client, as its keeper knows it.

use std::time::Duration;

use crate::backend::{HumanDuration, Keeper};
use crate::health::Health;
use crate::{Error, ErrorKind, Result};

/// Maximum time of a ping. Backends wait less, and their errors name the server.
const PING_LIMIT: Duration = Duration::from_millis(2500);

impl Keeper {
    /// Returns the health of this client, for
    /// [`DistributedLock::health`](crate::DistributedLock::health).
    ///
    /// It takes at most 2.5 seconds. The round trip is a [`ping`](crate::backend::LeaseStore::ping)
    /// of the store.
    ///
    /// # Cancel safety
    ///
    /// Dropping the future changes nothing.
    pub async fn health(&self) -> Health {
        let mut health = Health::new(self.ping().await);
        let holds = self.inner.registry.all();
        health.holds = Some(holds.len());
        health.waiters = Some(self.inner.waiters.count());
        health.oldest_renewal = holds.iter().map(|hold| hold.unconfirmed_for()).max();
        health
    }

    async fn ping(&self) -> Result<Duration> {
        let keeper = &self.inner;
        let sent = keeper.clock.now();
        let pinging = async {
            keeper.gate.check()?;
            tokio::select! {
                answer = keeper.store.ping() => answer,
                () = keeper.clock.sleep_until(sent.plus(PING_LIMIT)) => Err(no_answer()),
            }
        };
        match pinging.await {
            Ok(()) => Ok(keeper.clock.now().since(sent)),
            Err(error) if error.operation().is_some() => Err(error),
            Err(error) => Err(error
                .with_operation("ping")
                .with_backend(keeper.capabilities.backend)),
        }
    }
}

fn no_answer() -> Error {
    let message = format!("no answer within {}", HumanDuration(PING_LIMIT));
    Error::new(ErrorKind::Unavailable, message)
}
