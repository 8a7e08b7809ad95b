//! Held row locks: renewals by heartbeats, and releases.

use std::time::Duration;

use futures_util::future::join_all;
use lock_core::backend::{ClaimId, HoldId, Released, Renewal};
use lock_core::{LossReason, Result};

use crate::client::Client;
use crate::error::no_answer;
use crate::row::row_locks::{Heartbeat, RowRelease};

/// Maximum time that a renewal waits for the answer to a heartbeat.
const HEARTBEAT_LIMIT: Duration = Duration::from_secs(1);

/// Time limit of the answer to a release, on each connection.
const RELEASE_LIMIT: Duration = Duration::from_millis(450);

impl Client {
    /// Sends a heartbeat on the connection of each hold, and waits for the answers.
    pub(crate) async fn renew_rows(&self, holds: &[HoldId]) -> Result<Vec<Renewal>> {
        let command = self.command()?;
        let runtime = &command.taking.runtime;
        // The holds are answered for together, so none waits longer than the shortest ttl allows.
        let shortest = holds.iter().map(HoldId::ttl).min().unwrap_or_default();
        let renewals = holds.iter().map(|hold| async {
            let Some(mut heard) = self.rows.heartbeat(hold.claim(), runtime) else {
                return Renewal::Lost(LossReason::Removed);
            };
            // A silent connection must not delay the renewals of other holds.
            let (ttl, limit) = (hold.ttl(), (shortest / 8).min(HEARTBEAT_LIMIT));
            // Without an answer in time, the last answered heartbeat counts. Heartbeats are also
            // answered while no renewal waits.
            if let Some(Err(_)) = self.deadlines.timeout(limit, heard.changed()).await {
                return Renewal::Lost(LossReason::Removed);
            }
            let heard = *heard.borrow_and_update();
            match heard {
                Heartbeat::At(sent) => Renewal::Held { sent, ttl },
                Heartbeat::Dead => Renewal::Lost(LossReason::Removed),
            }
        });
        Ok(join_all(renewals).await)
    }

    /// Ends the heartbeats of a held row, and returns the parts that its release needs.
    ///
    /// A heartbeat that is under way is nearly always answered at once, and then its session is
    /// free.
    async fn start_release(&self, claim: ClaimId) -> Option<RowRelease> {
        let mut releasing = self.rows.release(claim)?;
        if releasing.session.is_some() {
            return Some(releasing);
        }
        let answered = releasing.heard.changed();
        let _answered = self.deadlines.timeout(RELEASE_LIMIT, answered).await;
        self.rows.release(claim)
    }

    /// Ends the transaction. If its connection does not answer, a kill over another connection ends
    /// it.
    pub(crate) async fn release_row(&self, hold: &HoldId) -> Result<Released> {
        self.settled(hold.claim(), RELEASE_LIMIT).await?;
        let Some(mut releasing) = self.start_release(hold.claim()).await else {
            return Ok(Released::AlreadyLost);
        };
        if let Some(session) = &mut releasing.session {
            let statements = self.names.release_row(hold, releasing.record);
            let ending = session.ask(&statements);
            if let Some(Ok(_)) = self.deadlines.timeout(RELEASE_LIMIT, ending).await {
                session.mark_reusable();
                self.rows.forget(hold.claim());
                return Ok(Released::Released);
            }
            // The session is closed with this release and never lent again: the kill may arrive
            // late.
        }
        let kill = self.kill(&releasing.connection)?;
        let ending = kill.until_gone();
        let Some(ended) = self.deadlines.timeout(RELEASE_LIMIT, ending).await else {
            return Err(no_answer(RELEASE_LIMIT));
        };
        let was_there = ended?;
        self.rows.forget(hold.claim());
        Ok(if was_there {
            Released::Released
        } else {
            Released::AlreadyLost
        })
    }
}
