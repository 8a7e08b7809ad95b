//! When the heartbeats of held row locks are due.

use std::collections::VecDeque;
use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use lock_core::{Clock, Moment, OwnerId};
use tokio::runtime::Handle;

use crate::rows::Rows;

/// How often the connection of each held row lock is tried.
///
/// Invariant: a holder hears within a second that its connection has ended, whatever its ttl. Why: the server
/// frees the row at once, and grants it to the next one. Breaks if: the holder's process gets no turn.
const INTERVAL: Duration = Duration::from_millis(500);

/// The timetable of the row locks that are held on one runtime. While there are any, one task attends to them.
pub(crate) struct Heartbeats {
    rows: Arc<Rows>,
    runtime: Handle,
    timetable: Mutex<Timetable>,
}

/// All heartbeats are equally far apart, so that those entered last are due last.
#[derive(Default)]
struct Timetable {
    due: VecDeque<(Moment, OwnerId)>,
    is_attended: bool,
}

impl Heartbeats {
    pub(crate) fn new(rows: Arc<Rows>, runtime: &Handle) -> Arc<Self> {
        Arc::new(Self {
            rows,
            runtime: runtime.clone(),
            timetable: Mutex::default(),
        })
    }

    /// Sends heartbeats for the lock of `owner` until it is released or lost.
    pub(crate) fn enter(self: &Arc<Self>, owner: OwnerId) {
        let mut timetable = self.lock();
        timetable
            .due
            .push_back((Clock::Boot.now().plus(INTERVAL), owner));
        if !std::mem::replace(&mut timetable.is_attended, true) {
            let attending = Attending {
                heartbeats: Arc::clone(self),
                is_over: false,
            };
            self.runtime.spawn(attending.run());
        }
    }

    /// Takes out who is due by now; the next due time, if there is any.
    fn take_due(&self) -> (Vec<OwnerId>, Option<Moment>) {
        let mut timetable = self.lock();
        let (now, mut due) = (Clock::Boot.now(), Vec::new());
        while let Some((at, owner)) = timetable.due.front().copied() {
            if at > now {
                return (due, Some(at));
            }
            timetable.due.pop_front();
            due.push(owner);
        }
        timetable.is_attended = !due.is_empty();
        (due, None)
    }

    fn lock(&self) -> MutexGuard<'_, Timetable> {
        self.timetable
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
    }
}

/// The task; its end, whatever the cause, lets the next lock start another one.
struct Attending {
    heartbeats: Arc<Heartbeats>,
    is_over: bool,
}

impl Attending {
    async fn run(mut self) {
        let heartbeats = Arc::clone(&self.heartbeats);
        loop {
            let (due, next) = heartbeats.take_due();
            match (due.is_empty(), next) {
                (true, Some(next)) => Clock::Boot.sleep_until(next).await,
                (true, None) => {
                    self.is_over = true;
                    return;
                }
                (false, _) => {}
            }
            for owner in due {
                let beating = heartbeats.rows.beat(owner, &heartbeats.runtime);
                if beating.is_some() {
                    heartbeats.enter(owner);
                }
            }
        }
    }
}

impl Drop for Attending {
    fn drop(&mut self) {
        if !self.is_over {
            self.heartbeats.lock().is_attended = false;
        }
    }
}

impl fmt::Debug for Heartbeats {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Heartbeats")
            .field("entries", &self.lock().due.len())
            .finish_non_exhaustive()
    }
}
