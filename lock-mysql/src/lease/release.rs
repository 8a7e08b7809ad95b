//! Releases of leases.

use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use lock_core::{HoldId, Mode, Released, Result};

use crate::client::{Client, CommandPools};
use crate::connection::pool::Lent;
use crate::connection::retrying_query::RetryingQuery;
use crate::error::Failure;
use crate::lease::statements::{RELEASE_MANY_WRITE, RELEASE_WRITE};
use crate::server_checks::MAY_WRITE;

/// The time that a release waits for its answer.
const RELEASE_LIMIT: Duration = Duration::from_millis(900);

/// The time that a release waits for its answer before it is asked for elsewhere, too.
const HEAD_START: Duration = Duration::from_millis(50);

/// The time that a release stands in line for a connection, where the server allows few.
const RELEASE_QUEUE_LIMIT: Duration = Duration::from_millis(1500);

impl Client {
    pub(crate) async fn release_lease(&self, hold: &HoldId) -> Result<Released> {
        self.stalled().remove(&hold.owner());
        self.settled(hold.owner(), RELEASE_LIMIT).await?;
        let found = self.release_somewhere(hold).await;
        if found.map_err(Failure::into_error)? == 0 {
            return Ok(Released::AlreadyLost);
        }
        self.wake(hold.key());
        Ok(Released::Released)
    }

    /// Over a connection of the caller's runtime, and where holds are kept when there is none or nobody drives it.
    async fn release_somewhere(&self, hold: &HoldId) -> Result<u64, Failure> {
        let keepers = self.lane_of_keeper()?;
        // Boxed, or each release would have room for it.
        let elsewhere = || Box::pin(self.release_over(&keepers, hold));
        let Some(command) = self
            .command()
            .ok()
            .filter(|command| !Arc::ptr_eq(command, &keepers))
        else {
            return elsewhere().await;
        };
        let mut here = pin!(self.release_over(&command, hold));
        // Nobody may drive this runtime just now.
        match self.deadlines.timeout(HEAD_START, here.as_mut()).await {
            Some(Err(Failure::Failed(error))) if error.is_retryable() => return elsewhere().await,
            Some(outcome) => return outcome,
            None => {}
        }
        // It may be slow only. Who finds nothing may have come second, and the first one is told later.
        let mut elsewhere = elsewhere();
        tokio::select! {
            outcome = here.as_mut() => match outcome {
                Ok(0) => Ok(elsewhere.await.unwrap_or(0)),
                Err(_) => elsewhere.await,
                found => found,
            },
            outcome = elsewhere.as_mut() => match outcome {
                // Ours has been heard, and is answered at once where anybody drives its connection.
                Ok(0) => match self.deadlines.timeout(HEAD_START, here).await {
                    Some(Ok(found)) => Ok(found),
                    Some(Err(_)) | None => Ok(0),
                },
                Err(_) => here.await,
                found => found,
            },
        }
    }

    /// Returns how many holds it has found, which is one or none.
    async fn release_over(&self, command: &CommandPools, hold: &HoldId) -> Result<u64, Failure> {
        let query = RetryingQuery {
            pool: &command.background,
            first: command.command.lend_idle(),
            owner: None,
            queue: RELEASE_QUEUE_LIMIT,
            statements: |_: &Lent| format!("{MAY_WRITE};{}", self.names.release(hold)),
        };
        let answer = match query.run(RELEASE_LIMIT).await {
            Ok(answered) => answered.answer,
            Err(Failure::NoTable(_)) => return Ok(0),
            Err(failure) => return Err(failure),
        };
        let write = match hold.mode() {
            Mode::Exclusive => RELEASE_WRITE,
            Mode::Shared | Mode::Permit { .. } => RELEASE_MANY_WRITE,
        };
        Ok(answer.nth_back(write)?.found)
    }
}
