//! When the heartbeats of held row locks are due.

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

/// The interval at which the connection of each held row lock is tried.
///
/// Invariant: a holder hears within a second that its connection has ended, whatever its ttl. Why:
/// the server frees the row at once, and grants it to the next one. Breaks if: the holder's process
/// gets no turn.
const INTERVAL: Duration = Duration::from_millis(500);

/// The time that a heartbeat may stay without an answer before the server is asked over another
/// connection whether it has that one.
const SILENT: Duration = Duration::from_millis(400);

/// The time that the answer to that may take.
const INQUIRY_LIMIT: Duration = Duration::from_millis(300);

/// The timetable of the row locks that are held on one runtime. While there are any, one task
/// attends to them.
pub(crate) struct Heartbeats {
    rows: Arc<RowLocks>,
    runtime: Handle,
    pool: Arc<Pool>,
    /// All heartbeats are equally far apart, so that those entered last are due last.
    timetable: Mutex<VecDeque<(Moment, ClaimId)>>,
    attended: OnDemand,
}

impl Heartbeats {
    /// For the locks that are held on `runtime`; the server is asked about them over connections of
    /// `pool`.
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

    /// Takes out the claims that are due by now, and returns when the next one is. Ends the task's
    /// attendance if there are none at all.
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

    /// Ends the locks whose connections the server does not have any more, although they seem open
    /// here: it was started anew, or another one has its address, and may grant the same rows.
    async fn inquire(&self, silent: Vec<(ClaimId, ConnectionId)>) {
        let question = ConnectionId::look_for(silent.iter().map(|(_, connection)| connection));
        let mut answer = self.pool.ask(question.clone(), INQUIRY_LIMIT).await;
        if matches!(answer, Err(Failure::NoAnswer(_))) {
            // What was idle may be as silent, and is closed by now.
            answer = self.pool.ask(question, INQUIRY_LIMIT).await;
        }
        let Ok(answer) = answer else { return };
        let found: Result<HashSet<Vec<u8>>> = answer.rows().map(|row| row.value(0)).collect();
        let Ok(found) = found else { return };
        for (claim, connection) in silent {
            if !connection.is_among(&found) {
                self.rows
                    .died(claim, "the server does not have its connection");
            }
        }
    }
}

/// The task: sends heartbeats as long as there are locks.
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
