//! The end of a connection on the server, over another connection.

use std::future::pending;
use std::sync::Arc;
use std::time::Duration;

use lock_core::Result;
use lock_core::backend::{Backoff, Clock};

use crate::connection::connection_id::ConnectionId;
use crate::connection::pool::{Lent, Pool};
use crate::connection::retrying_query::{NoClaim, RetryingQuery};
use crate::error::Failure;

const LIMIT: Duration = Duration::from_secs(2);

/// Time for which failed attempts are repeated.
const PATIENCE: Duration = Duration::from_secs(30);

/// Pause between two checks that the connection is gone.
const PAUSE: Duration = Duration::from_millis(2);

/// The end of a connection on the server, with its wait and its transaction.
pub(crate) struct Kill {
    /// The pool over which the kill is sent.
    pub(crate) pool: Arc<Pool>,
    pub(crate) connection: ConnectionId,
}

impl Kill {
    /// Repeats the kill until the connection is gone, for a limited time.
    pub(crate) async fn until_done(self) {
        let ends = Clock::Boot.now().plus(PATIENCE);
        let mut backoff = Backoff::new(Duration::from_millis(20), Duration::from_secs(1));
        // Boxed, so that the future of a request does not contain this future.
        while let Err(error) = Box::pin(self.until_gone()).await {
            tracing::debug!(%error, "mysql: ending a connection on the server failed, trying again");
            if Clock::Boot.now() >= ends {
                return;
            }
            tokio::time::sleep(backoff.next_pause()).await;
        }
    }

    /// Ends the connection, and waits until the server has released its locks.
    ///
    /// The server does so a moment after the kill. Returns true if there was a connection to end.
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
            // A release may run outside of any runtime, where tokio's timer does not work.
            self.pool.deadlines.timeout(PAUSE, pending::<()>()).await;
        }
    }
}
