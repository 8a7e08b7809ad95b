//! Releases of leases.

use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use lock_core::backend::{HoldId, Released};
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
    pub(crate) async fn release_lease(&self, hold: &HoldId) -> Result<Released> {
        self.stalled.lock().remove(&hold.claim());
        self.settled(hold.claim(), RELEASE_LIMIT).await?;
        let found = self.release_somewhere(hold).await;
        if found.map_err(Failure::into_error)? == 0 {
            return Ok(Released::AlreadyLost);
        }
        if let Ok(background) = self.background() {
            background.poller.wake(&self.names.row(hold.key()));
        }
        Ok(Released::Released)
    }

    /// Releases over the caller's runtime, or over the keeper's if that is missing or makes no
    /// progress.
    async fn release_somewhere(&self, hold: &HoldId) -> Result<u64, Failure> {
        let keepers = self.keeper_connections()?;
        // Boxed, so that the future of a release does not contain this future.
        let elsewhere = || Box::pin(self.release_over(&keepers, hold));
        let Some(command) = self
            .command()
            .ok()
            .filter(|command| !Arc::ptr_eq(command, &keepers))
        else {
            return elsewhere().await;
        };
        let mut here = pin!(self.release_over(&command, hold));
        // The caller's runtime may make no progress.
        match self.deadlines.timeout(HEAD_START, here.as_mut()).await {
            Some(Err(Failure::Failed(error))) if error.is_retryable() => return elsewhere().await,
            Some(outcome) => return outcome,
            None => {}
        }
        // Both requests may be running. One that deleted 0 rows may have lost the race, so wait for
        // the other.
        let mut elsewhere = elsewhere();
        tokio::select! {
            outcome = here.as_mut() => match outcome {
                Ok(0) => Ok(elsewhere.await.unwrap_or(0)),
                Err(_) => elsewhere.await,
                found => found,
            },
            outcome = elsewhere.as_mut() => match outcome {
                // The caller's request may have come first, and have its answer later.
                Ok(0) => {
                    let runtime = &command.releasing.runtime;
                    let late = self.deadlines.timeout_while_driven(RELEASE_LIMIT, runtime, here);
                    match late.await {
                        Some(Ok(found)) => Ok(found),
                        Some(Err(_)) | None => Ok(0),
                    }
                }
                Err(_) => here.await,
                found => found,
            },
        }
    }

    /// Returns the number of holds that the release found, 1 or 0.
    async fn release_over(&self, command: &CommandPools, hold: &HoldId) -> Result<u64, Failure> {
        let release = |_: &Lent| format!("{MAY_WRITE};{}", self.names.release(hold));
        let pool = &command.releasing;
        let mut query = RetryingQuery::new(pool, NoClaim, RELEASE_QUEUE_LIMIT, release);
        query.first = command.taking.lend_idle();
        let answer = match query.run(RELEASE_LIMIT).await {
            Ok((answer, _)) => answer,
            Err(Failure::NoTable(_)) => return Ok(0),
            Err(failure) => return Err(failure),
        };
        let write = match hold.mode() {
            Mode::Shared | Mode::Permit { .. } => RELEASE_MANY_WRITE,
            _ => RELEASE_WRITE,
        };
        Ok(answer.nth_back(write)?.found)
    }
}
