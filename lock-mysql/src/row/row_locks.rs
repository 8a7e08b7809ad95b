//! The row locks that a client holds, and the heartbeats that keep them.

use std::collections::HashMap;
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use lock_core::backend::{ClaimId, Clock, HoldId, LossSender, Moment, Mutex};
use lock_core::{LossReason, Result};
use tokio::runtime::Handle;
use tokio::sync::watch;

use crate::connection::connection_id::ConnectionId;
use crate::connection::pool::Lent;
use crate::connection::session::Session;
use crate::error::{Failure, takes_no_writes};
use crate::server_checks::REFUSAL;

/// Held row locks by their claims.
#[derive(Default)]
pub(crate) struct RowLocks(Mutex<HashMap<ClaimId, Row>>);

/// One held row lock: a connection with an open transaction.
struct Row {
    connection: ConnectionId,
    /// `None` while a heartbeat uses the session, and once the lock is being released.
    session: Option<Lent>,
    /// When the last heartbeat was sent.
    heartbeat: Moment,
    is_released: bool,
    is_dead: bool,
    /// Time limit of the answer to a heartbeat.
    limit: Duration,
    /// The token that the release stores in the row, if any.
    record: Option<u64>,
    heard: watch::Sender<Heartbeat>,
    loss: LossSender,
}

/// The outcome of the last heartbeat.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Heartbeat {
    /// The server answered a heartbeat that was sent at this time.
    At(Moment),
    /// The lock has ended: its connection is gone, or the server may not grant any more.
    Dead,
}

/// The parts that the release of a row lock needs.
pub(crate) struct RowRelease {
    pub(crate) connection: ConnectionId,
    /// The session of the transaction, unless a heartbeat uses it.
    pub(crate) session: Option<Lent>,
    pub(crate) record: Option<u64>,
    /// Receives the outcomes of heartbeats.
    pub(crate) heard: watch::Receiver<Heartbeat>,
}

impl RowLocks {
    /// Enters a lock whose take was sent at `sent`. `loss` reports its end.
    pub(crate) fn enter(
        &self,
        hold: &HoldId,
        session: Lent,
        sent: Moment,
        record: Option<u64>,
        loss: LossSender,
    ) {
        let row = Row {
            connection: session.connection_id.clone(),
            session: Some(session),
            heartbeat: sent,
            is_released: false,
            is_dead: false,
            limit: hold.ttl(),
            record,
            heard: watch::Sender::new(Heartbeat::At(sent)),
            loss,
        };
        self.0.lock().insert(hold.claim(), row);
    }

    /// Sends a heartbeat on the lock's connection, unless a heartbeat is under way.
    ///
    /// Returns a receiver of its outcome, or `None` if the lock is not held. The heartbeat has its
    /// own task: a late answer still counts. A renewal that stops waiting must not drop the
    /// connection, which would end the lock.
    pub(crate) fn heartbeat(
        self: &Arc<Self>,
        claim: ClaimId,
        runtime: &Handle,
    ) -> Option<watch::Receiver<Heartbeat>> {
        let mut rows = self.0.lock();
        let row = rows.get_mut(&claim);
        let row = row.filter(|row| !row.is_released && !row.is_dead)?;
        if let Some(mut session) = row.session.take() {
            let (rows, limit, sent) = (Arc::clone(self), row.limit, Clock::Boot.now());
            row.heartbeat = sent;
            runtime.spawn(async move {
                match tokio::time::timeout(limit, heartbeat(&mut session)).await {
                    Ok(Ok(())) => rows.put_back(claim, session, sent),
                    Ok(Err(error)) => rows.died(claim, &error.to_string()),
                    Err(_) => rows.died(claim, "no answer to its heartbeat"),
                }
            });
        }
        Some(row.heard.subscribe())
    }

    /// Returns the locks of `claims` whose heartbeat has had no answer for at least `since`.
    pub(crate) fn silent(
        &self,
        claims: &[ClaimId],
        since: Duration,
    ) -> Vec<(ClaimId, ConnectionId)> {
        let (rows, now) = (self.0.lock(), Clock::Boot.now());
        let is_silent = |row: &Row| {
            let waits = row.session.is_none() && !row.is_released && !row.is_dead;
            waits && now.since(row.heartbeat) >= since
        };
        let rows = claims
            .iter()
            .filter_map(|claim| Some((*claim, rows.get(claim)?)));
        rows.filter(|(_, row)| is_silent(row))
            .map(|(claim, row)| (claim, row.connection.clone()))
            .collect()
    }

    fn put_back(&self, claim: ClaimId, session: Lent, sent: Moment) {
        // A release that began meanwhile waits for the session.
        if let Some(row) = self.0.lock().get_mut(&claim) {
            row.session = Some(session);
            row.heard.send_replace(Heartbeat::At(sent));
        }
    }

    pub(crate) fn died(&self, claim: ClaimId, why: &str) {
        let loss = match self.0.lock().get_mut(&claim) {
            Some(row) => {
                row.is_dead = true;
                row.heard.send_replace(Heartbeat::Dead);
                row.loss.clone()
            }
            None => return,
        };
        tracing::debug!("mysql: row lock ended: {why}");
        // Called without the mutex: the receiver may release the lock.
        loss.lost(LossReason::Removed);
    }

    /// Ends the heartbeats of a lock, and returns the parts that its release needs.
    ///
    /// Returns `None` if the lock is not held. The lock stays entered until
    /// [`forget`](Self::forget), so that a release can be repeated.
    pub(crate) fn release(&self, claim: ClaimId) -> Option<RowRelease> {
        let mut rows = self.0.lock();
        let row = rows.get_mut(&claim)?;
        row.is_released = true;
        Some(RowRelease {
            connection: row.connection.clone(),
            session: row.session.take(),
            record: row.record,
            heard: row.heard.subscribe(),
        })
    }

    /// Removes a lock that has ended.
    pub(crate) fn forget(&self, claim: ClaimId) {
        let row = self.0.lock().remove(&claim);
        drop(row);
    }
}

/// Asks whether the connection is alive, and whether its server may still grant.
///
/// A demoted server keeps its transactions, while its successor grants the same rows. So the lock
/// then ends here too, together with the connection.
async fn heartbeat(session: &mut Session) -> Result<()> {
    let answer = session.ask(&format!("SELECT {REFUSAL}")).await;
    let answer = answer.map_err(Failure::into_error)?;
    match answer.first_value::<Option<String>>()?.flatten() {
        Some(setting) => Err(takes_no_writes(&setting)),
        None => Ok(()),
    }
}

impl fmt::Debug for RowLocks {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RowLocks")
            .field("held", &self.0.lock().len())
            .finish_non_exhaustive()
    }
}
