//! The shutdown of a client: releases its holds and ends its acquisitions.

use std::time::Duration;

use crate::backend::Keeper;
use crate::{Error, ErrorKind, LossReason, Result};

impl Keeper {
    /// Ends all holds and acquisitions of this client and waits at most `within` for confirmation.
    ///
    /// See [`DistributedLock::shutdown`](crate::DistributedLock::shutdown). Holds lost earlier keep
    /// their keys closed for their [lock delay](crate::LockRequest::lock_delay), and all holds for
    /// their [minimum hold](crate::LockRequest::min_hold).
    ///
    /// # Errors
    ///
    /// - [`Unavailable`](ErrorKind::Unavailable) if a release is unconfirmed by then: it continues
    ///   in the background, and the ttl ends the hold at the latest.
    /// - [`Config`](ErrorKind::Config) outside a Tokio runtime with the keeper on the caller's
    ///   runtime. The client then stays open.
    ///
    /// # Cancel safety
    ///
    /// Dropping the future stops only the wait.
    pub async fn shutdown(&self, within: Duration) -> Result<()> {
        let keeper = &self.inner;
        let begun = keeper.clock.now();
        let runtime = keeper.keeper_runtime.handle()?;
        keeper.gate.close();
        for hold in keeper.registry.all() {
            if hold.end(LossReason::Closed) && !hold.is_lost_and_kept() {
                keeper.release_from(&runtime, &hold);
            }
        }
        let under_way = tokio::select! {
            // First, so that a shutdown without pending work succeeds even with a `within` of zero.
            biased;
            // Work that starts later fails at the closed gate.
            () = keeper.gate.drained() => 0,
            () = keeper.clock.sleep_until(begun.plus(within)) => keeper.gate.how_many(),
        };
        match under_way + keeper.gate.how_many_unconfirmed(begun) {
            0 => Ok(()),
            left => Err(self.not_confirmed(left)),
        }
    }

    fn not_confirmed(&self, left: usize) -> Error {
        Error::new(
            ErrorKind::Unavailable,
            format!(
                "the store has not confirmed {left} releases and acquisitions: their ttl ends them"
            ),
        )
        .with_operation("shutdown")
        .with_backend(self.inner.capabilities.backend)
    }
}
