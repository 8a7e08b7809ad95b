//! The end of a connection, from outside.

use std::sync::Arc;
use std::time::Duration;

use lock_core::{Backoff, Clock, Result};

use crate::errand::Errand;
use crate::error::Failure;
use crate::identity::Identity;
use crate::pool::{Lent, Pool};

/// How long one attempt may take.
const LIMIT: Duration = Duration::from_secs(2);

/// How long it is tried again and again.
const PATIENCE: Duration = Duration::from_secs(30);

/// Ends a connection on the server, together with what it waits for and its transaction.
pub(crate) struct Kill {
    /// What it travels on.
    pub(crate) pool: Arc<Pool>,
    pub(crate) connection: Identity,
}

impl Kill {
    /// Tries until the server has answered. Answers whether the connection is gone for sure.
    pub(crate) async fn until_done(self) -> bool {
        let ends = Clock::Boot.now().plus(PATIENCE);
        let mut backoff = Backoff::new(Duration::from_millis(20), Duration::from_secs(1));
        while let Err(error) = self.once().await {
            tracing::debug!(%error, "a connection was not ended on the server");
            if Clock::Boot.now() >= ends {
                return false;
            }
            tokio::time::sleep(backoff.next_pause()).await;
        }
        true
    }

    /// Tries once. Answers whether there was anything to end.
    pub(crate) async fn once(&self) -> Result<bool> {
        let errand = Errand {
            pool: &self.pool,
            first: None,
            owner: None,
            queue: LIMIT,
            statements: |session: &Lent| self.connection.kill(session.is_mariadb),
        };
        match errand.run(LIMIT).await {
            Ok(_) => Ok(true),
            Err(Failure::Gone) => Ok(false),
            Err(failure) => Err(failure.into_error()),
        }
    }
}
