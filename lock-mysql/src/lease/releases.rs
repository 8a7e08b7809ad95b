//! Releases of leases.

use std::sync::Arc;
use std::time::Duration;

use lock_core::backend::{HoldId, Released, TwoRoutes};
use lock_core::{Mode, Result};

use crate::client::{Client, CommandPools};
use crate::connection::pool::Lent;
use crate::connection::retrying_query::{NoClaim, RetryingQuery};
use crate::error::Failure;
use crate::lease::statements::{RELEASE_MANY_WRITE, RELEASE_WRITE};
use crate::server_checks::MAY_WRITE;

/// Time limit of the answer to a release.
const RELEASE_LIMIT: Duration = Duration::from_millis(900);

/// Time for the answer over the caller's runtime before the keeper's runtime also sends the
/// release.
const HEAD_START: Duration = Duration::from_millis(50);

/// Maximum time that a release waits for a connection, if the server allows few.
const RELEASE_QUEUE_LIMIT: Duration = Duration::from_millis(1500);

impl Client {
    /// Releases a lease; with `left`, lets it end after that time.
    pub(crate) async fn release_lease(
        &self,
        hold: &HoldId,
        left: Option<Duration>,
    ) -> Result<Released> {
        self.stalled.lock().remove(&hold.claim());
        self.settled(hold.claim(), RELEASE_LIMIT).await?;
        let released = self.release_somewhere(hold, left).await;
        let released = released.map_err(Failure::into_error)?;
        if (released, left) == (Released::Released, None)
            && let Ok(background) = self.background()
        {
            background.poller.wake(&self.names.row(hold.key()));
        }
        Ok(released)
    }

    /// Releases over the caller's runtime, or over the keeper's if that is missing or makes no
    /// progress.
    async fn release_somewhere(
        &self,
        hold: &HoldId,
        left: Option<Duration>,
    ) -> Result<Released, Failure> {
        let keepers = self.keeper_connections()?;
        // Boxed, so that the future of a release does not contain this future.
        let elsewhere = || Box::pin(self.release_over(&keepers, hold, left));
        let Some(command) = self
            .command()
            .ok()
            .filter(|command| !Arc::ptr_eq(command, &keepers))
        else {
            return elsewhere().await;
        };
        let routes = TwoRoutes {
            deadlines: &self.deadlines,
            runtime: &command.releasing.runtime,
            head_start: HEAD_START,
            limit: RELEASE_LIMIT,
        };
        let is_retryable =
            |failure: &Failure| matches!(failure, Failure::Failed(error) if error.is_retryable());
        let here = self.release_over(&command, hold, left);
        routes.release(here, is_retryable, elsewhere).await
    }

    async fn release_over(
        &self,
        command: &CommandPools,
        hold: &HoldId,
        left: Option<Duration>,
    ) -> Result<Released, Failure> {
        let release = |_: &Lent| format!("{MAY_WRITE};{}", self.names.release(hold, left));
        let pool = &command.releasing;
        let mut query = RetryingQuery::new(pool, NoClaim, RELEASE_QUEUE_LIMIT, release);
        query.first = command.taking.lend_idle();
        let answer = match query.run(RELEASE_LIMIT).await {
            Ok((answer, _)) => answer,
            Err(Failure::NoTable(_)) => return Ok(Released::AlreadyLost),
            Err(failure) => return Err(failure),
        };
        let write = match hold.mode() {
            Mode::Exclusive => RELEASE_WRITE,
            _ => RELEASE_MANY_WRITE,
        };
        Ok(match answer.nth_back(write)?.found {
            0 => Released::AlreadyLost,
            _ => Released::Released,
        })
    }
}
