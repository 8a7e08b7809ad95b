//! The heartbeats of held row locks: their timetable, and the task that sends them.

use std::collections::{HashSet, VecDeque};
use std::sync::Arc;
use std::time::Duration;

use lock_core::Result;
use lock_core::backend::{Attendance, ClaimId, Clock, Moment, Mutex, OnDemand};
use tokio::runtime::Handle;

use crate::connection::connection_id::ConnectionId;
use crate::connection::pool::Pool;
use crate::error::Failure;
use crate::row::row_locks::RowLocks;

/// Interval of the heartbeats on the connection of each held row lock.
///
/// Invariant: a holder learns within a second that its connection has ended, whatever its ttl. Why:
/// the server frees the row at once, and grants it to the next waiter. Breaks if: the holder's
/// process gets no CPU time.
const INTERVAL: Duration = Duration::from_millis(500);

/// Time without an answer to a heartbeat after which the client inquires about the connection.
///
/// The inquiry asks the server over another connection whether it still has the silent connection.
const SILENT: Duration = Duration::from_millis(400);

/// Time limit of the answer to an inquiry.
const INQUIRY_LIMIT: Duration = Duration::from_millis(300);

/// The timetable of the row locks held on one runtime. One task sends heartbeats while locks are
/// held.
pub(crate) struct Heartbeats {
    rows: Arc<RowLocks>,
    runtime: Handle,
    pool: Arc<Pool>,
    /// In the order of due times, since all heartbeats have the same interval.
    timetable: Mutex<VecDeque<(Moment, ClaimId)>>,
    attended: OnDemand,
}

impl Heartbeats {
    /// Creates the timetable of the locks held on `runtime`. Inquiries use connections of `pool`.
    pub(crate) fn new(rows: Arc<RowLocks>, runtime: &Handle, pool: &Arc<Pool>) -> Arc<Self> {
        Arc::new(Self {
            pool: Arc::clone(pool),
            rows,
            runtime: runtime.clone(),
            timetable: Mutex::default(),
            attended: OnDemand::default(),
        })
    }

    /// Sends heartbeats for the lock of `claim` until it is released or lost.
    pub(crate) fn enter(self: &Arc<Self>, claim: ClaimId) {
        let mut timetable = self.timetable.lock();
        timetable.push_back((Clock::Boot.now().plus(INTERVAL), claim));
        drop(timetable);
        if let Some(attendance) = self.attended.begin() {
            self.runtime.spawn(attend(Arc::clone(self), attendance));
        }
    }

    /// Removes the claims that are due, and returns them with the due time of the next claim.
    ///
    /// Ends the task's attendance if the timetable was empty.
    fn take_due(&self) -> (Vec<ClaimId>, Option<Moment>) {
        let mut timetable = self.timetable.lock();
        let (now, mut due) = (Clock::Boot.now(), Vec::new());
        while let Some((at, claim)) = timetable.front().copied() {
            if at > now {
                return (due, Some(at));
            }
            timetable.pop_front();
            due.push(claim);
        }
        if due.is_empty() {
            self.attended.end();
        }
        (due, None)
    }

    /// Ends the locks of the `silent` connections that the server no longer has.
    ///
    /// Such a connection may seem open: the server was restarted, or another server has its
    /// address. That server may grant the same rows.
    async fn inquire(&self, silent: Vec<(ClaimId, ConnectionId)>) {
        let question = ConnectionId::look_for(silent.iter().map(|(_, connection)| connection));
        let mut answer = self.pool.ask(question.clone(), INQUIRY_LIMIT).await;
        if matches!(answer, Err(Failure::NoAnswer(_))) {
            // The inquiry's idle connection may be as silent, and is closed by now. The retry uses
            // a new connection.
            answer = self.pool.ask(question, INQUIRY_LIMIT).await;
        }
        let Ok(answer) = answer else { return };
        let found: Result<HashSet<Vec<u8>>> = answer.rows().map(|row| row.value(0)).collect();
        let Ok(found) = found else { return };
        for (claim, connection) in silent {
            if !connection.is_among(&found) {
                self.rows.died(claim, "the server closed its connection");
            }
        }
    }
}

/// The heartbeat task: sends heartbeats while there are locks.
async fn attend(heartbeats: Arc<Heartbeats>, _attendance: Attendance) {
    loop {
        let (due, next) = heartbeats.take_due();
        match (due.is_empty(), next) {
            (true, Some(next)) => Clock::Boot.sleep_until(next).await,
            (true, None) => return,
            (false, _) => {}
        }
        let silent = heartbeats.rows.silent(&due, SILENT);
        if !silent.is_empty() {
            let asking = Arc::clone(&heartbeats);
            let inquiring = async move { asking.inquire(silent).await };
            heartbeats.runtime.spawn(inquiring);
        }
        for claim in due {
            let heartbeat = heartbeats.rows.heartbeat(claim, &heartbeats.runtime);
            if heartbeat.is_some() {
                heartbeats.enter(claim);
            }
        }
    }
}
