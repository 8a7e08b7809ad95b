//! Tasks that run only while there is work for them.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// A marker that one task attends to a list of work, started when work arrives.
///
/// Callers add work under a mutex and call [`begin`](Self::begin) after that. A task that finds no
/// more work calls [`end`](Self::end) under the same mutex, so that no work is left without a task.
///
/// ```
/// use lock_core::backend::{Mutex, OnDemand};
///
/// let (work, attended) = (Mutex::new(vec![1, 2]), OnDemand::default());
/// let task = attended.begin().expect("no task runs yet");
/// assert!(attended.begin().is_none());
/// let mut left = work.lock();
/// while let Some(_done) = left.pop() {}
/// attended.end();
/// drop((left, task));
/// assert!(attended.begin().is_some());
/// ```
#[derive(Debug, Default)]
pub struct OnDemand {
    /// Number of starts and ends; odd while a task attends.
    turns: Arc<AtomicU64>,
}

/// The attendance of one task.
///
/// If it is dropped before its end, for example with its runtime, the next work starts another
/// task.
#[derive(Debug)]
pub struct Attendance {
    turns: Arc<AtomicU64>,
    own: u64,
}

impl OnDemand {
    /// Returns the attendance for a task that has to be started now; `None` if a task attends.
    pub fn begin(&self) -> Option<Attendance> {
        let before = self.turns.fetch_or(1, Ordering::SeqCst);
        before.is_multiple_of(2).then(|| Attendance {
            turns: Arc::clone(&self.turns),
            own: before + 1,
        })
    }

    /// Ends the attendance of the calling task.
    pub fn end(&self) {
        self.turns.fetch_add(1, Ordering::SeqCst);
    }
}

impl Drop for Attendance {
    fn drop(&mut self) {
        // Has no effect after the end, when another task may attend.
        let (own, next) = (self.own, self.own + 1);
        let _ended = (self.turns).compare_exchange(own, next, Ordering::SeqCst, Ordering::SeqCst);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_task_that_is_dropped_makes_room_for_another() {
        let attended = OnDemand::default();
        drop(attended.begin().unwrap());
        assert!(attended.begin().is_some());
    }

    #[test]
    fn a_task_that_has_ended_does_not_end_its_successor() {
        let attended = OnDemand::default();
        let first = attended.begin().unwrap();
        attended.end();
        let second = attended.begin().unwrap();
        drop(first);
        assert!(attended.begin().is_none(), "the second one attends");
        drop(second);
    }
}
