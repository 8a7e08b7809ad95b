//! The end of a connection, from outside.

use std::future::pending;
use std::sync::Arc;
use std::time::Duration;

use lock_core::Result;
use lock_core::backend::{Backoff, Clock};

use crate::connection::connection_id::ConnectionId;
use crate::connection::pool::{Lent, Pool};
use crate::connection::retrying_query::{NoClaim, RetryingQuery};
use crate::error::Failure;

/// The time that one attempt may take.
const LIMIT: Duration = Duration::from_secs(2);

/// The time that it is tried again and again.
const PATIENCE: Duration = Duration::from_secs(30);

/// The pause between two looks whether a connection has gone.
const PAUSE: Duration = Duration::from_millis(2);

/// Ends a connection on the server, together with what it waits for and its transaction.
pub(crate) struct Kill {
    /// The pool that it travels on.
    pub(crate) pool: Arc<Pool>,
    pub(crate) connection: ConnectionId,
}

impl Kill {
    /// Tries until the server has answered, or for a while.
    pub(crate) async fn until_done(self) {
        let ends = Clock::Boot.now().plus(PATIENCE);
        let mut backoff = Backoff::new(Duration::from_millis(20), Duration::from_secs(1));
        // Boxed, or each request would have room for it.
        while let Err(error) = Box::pin(self.until_gone()).await {
            tracing::debug!(%error, "a connection was not ended on the server");
            if Clock::Boot.now() >= ends {
                return;
            }
            tokio::time::sleep(backoff.next_pause()).await;
        }
    }

    /// Ends the connection and waits until the server has given back what it had locked, which it
    /// does a moment after it was told. Answers whether there was anything to end.
    pub(crate) async fn until_gone(&self) -> Result<bool> {
        let (ends, mut was_there) = (Clock::Boot.now().plus(LIMIT), false);
        loop {
            let kill = |session: &Lent| self.connection.kill(session.is_mariadb);
            match RetryingQuery::new(&self.pool, NoClaim, LIMIT, kill)
                .run(LIMIT)
                .await
            {
                Ok(_) if Clock::Boot.now() >= ends => return Ok(true),
                Ok(_) => was_there = true,
                Err(Failure::Gone) => return Ok(was_there),
                Err(failure) => return Err(failure.into_error()),
            }
            // A release may run outside of any runtime, where there is no other timer.
            self.pool.deadlines.timeout(PAUSE, pending::<()>()).await;
        }
    }
}
