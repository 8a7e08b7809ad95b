//! The health of a client as its keeper knows it, and the holders of a key as the store knows them.

use std::future::Future;
use std::time::Duration;

use crate::backend::{HumanDuration, Keeper};
use crate::health::Health;
use crate::{Error, ErrorKind, KeyInfo, LockKey, Result};

/// Maximum time of a ping or an inspection. Backends wait less, and their errors name the server.
const ANSWER_LIMIT: Duration = Duration::from_millis(2500);

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

    /// Reads the holders of `key` from the store, for
    /// [`DistributedLock::inspect_key`](crate::DistributedLock::inspect_key).
    ///
    /// It takes at most 2.5 seconds.
    ///
    /// # Errors
    ///
    /// The errors of [`LeaseStore::inspect`](crate::backend::LeaseStore::inspect), and
    /// [`Closed`](ErrorKind::Closed) after [`shutdown`](Self::shutdown).
    ///
    /// # Cancel safety
    ///
    /// Dropping the future changes nothing.
    pub async fn inspect(&self, key: &LockKey) -> Result<KeyInfo> {
        let keeper = &self.inner;
        let inspected = self.answer("inspect", keeper.store.inspect(key)).await;
        inspected.map_err(|error| error.with_key(key))
    }

    async fn ping(&self) -> Result<Duration> {
        let keeper = &self.inner;
        let sent = keeper.clock.now();
        self.answer("ping", keeper.store.ping()).await?;
        Ok(keeper.clock.now().since(sent))
    }

    /// Waits for the answer to `request`, unless the client is shut down or the time is over.
    async fn answer<T>(
        &self,
        operation: &'static str,
        request: impl Future<Output = Result<T>>,
    ) -> Result<T> {
        let keeper = &self.inner;
        let ends = keeper.clock.now().plus(ANSWER_LIMIT);
        let asking = async {
            keeper.gate.check()?;
            tokio::select! {
                answer = request => answer,
                () = keeper.clock.sleep_until(ends) => Err(no_answer()),
            }
        };
        asking.await.map_err(|error| match error.operation() {
            Some(_) => error,
            None => error
                .with_operation(operation)
                .with_backend(keeper.capabilities.backend),
        })
    }
}

fn no_answer() -> Error {
    let message = format!("no answer within {}", HumanDuration(ANSWER_LIMIT));
    Error::new(ErrorKind::Unavailable, message)
}
