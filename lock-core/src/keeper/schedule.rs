//! The schedule of the keeper task: which hold needs attention when.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::Notify;

use crate::backend::{Attendance, ClaimId, Moment, OnDemand};
use crate::hold::Hold;
use crate::mutex::Mutex;

/// Maximum time by which a hold is attended to early.
const EARLY_MAX: Duration = Duration::from_millis(400);

/// The schedule of the holds that one keeper task attends to.
///
/// Taking and releasing a lock changes the schedule but does not wake the task. Its next wake-up is
/// nearly always earlier than the first renewal of a new hold.
#[derive(Debug, Default)]
pub(crate) struct RenewalSchedule {
    timetable: Mutex<Timetable>,
    attended: OnDemand,
    changed: Notify,
}

#[derive(Debug, Default)]
struct Timetable {
    due: BTreeMap<(Moment, ClaimId), Arc<Hold>>,
    task: Task,
}

#[derive(Debug, Default, Clone, Copy, PartialEq)]
enum Task {
    #[default]
    Working,
    SleepsUntil(Moment),
    /// Nothing is scheduled, but renewals are pending.
    FinishesWork,
}

impl RenewalSchedule {
    /// Schedules `hold` at `due`, replacing its earlier entry. Returns the attendance of the keeper
    /// task if the caller has to start one.
    #[must_use]
    pub(crate) fn enter(&self, hold: &Arc<Hold>, due: Moment) -> Option<Attendance> {
        let mut timetable = self.timetable.lock();
        timetable.remove(hold);
        hold.reschedule(Some(due));
        timetable
            .due
            .insert((due, hold.id.claim()), Arc::clone(hold));
        let attendance = self.attended.begin();
        let is_later = match timetable.task {
            Task::SleepsUntil(wake) => due >= wake,
            Task::Working => true,
            Task::FinishesWork => false,
        };
        if attendance.is_some() || !is_later {
            timetable.task = Task::Working;
        }
        drop(timetable);
        if attendance.is_none() && !is_later {
            self.changed.notify_one();
        }
        attendance
    }

    pub(crate) fn remove(&self, hold: &Hold) {
        self.timetable.lock().remove(hold);
    }

    /// Removes and returns every due hold, and with it the holds that are due soon.
    ///
    /// Renewing many holds at once costs hardly more than renewing few, and batches of holds
    /// granted at different times merge.
    pub(crate) fn take_due(&self, now: Moment) -> Vec<Arc<Hold>> {
        let mut timetable = self.timetable.lock();
        let mut taken = Vec::new();
        while let Some(first) = timetable.due.first_entry() {
            let early = if taken.is_empty() {
                Duration::ZERO
            } else {
                (first.get().ttl() / 75).min(EARLY_MAX)
            };
            if first.key().0 > now.plus(early) {
                break;
            }
            let hold = first.remove();
            hold.reschedule(None);
            taken.push(hold);
        }
        taken
    }

    /// Returns the keeper task's next wake-up; it ends with an empty schedule, unless it is `busy`.
    pub(crate) fn plan(&self, busy: bool) -> NextWakeUp {
        let mut timetable = self.timetable.lock();
        let first = timetable.due.keys().next().map(|(due, _)| *due);
        match first {
            Some(due) => {
                timetable.task = Task::SleepsUntil(due);
                NextWakeUp::SleepUntil(due)
            }
            None if busy => {
                timetable.task = Task::FinishesWork;
                NextWakeUp::FinishWork
            }
            None => {
                self.attended.end();
                NextWakeUp::Stop
            }
        }
    }

    pub(crate) async fn changed(&self) {
        self.changed.notified().await;
    }
}

impl Timetable {
    fn remove(&mut self, hold: &Hold) {
        if let Some(due) = hold.reschedule(None) {
            self.due.remove(&(due, hold.id.claim()));
        }
    }
}

pub(crate) enum NextWakeUp {
    SleepUntil(Moment),
    FinishWork,
    Stop,
}
