//! The record of the observer.

use std::collections::HashMap;
use std::fmt;
use std::time::Duration;

use lock_core::{HoldWatch, LockKey, Mode};

use crate::clock::{ProcessClock, Time};

/// The events so far, and the present state.
#[derive(Debug, Default)]
pub(crate) struct Book {
    pub(crate) now: Time,
    pub(crate) arrivals: u64,
    pub(crate) waiting: Vec<Waiting>,
    pub(crate) grants: Vec<Grant>,
    /// Key, arrival and token of every grant.
    pub(crate) served: Vec<(LockKey, u64, u64)>,
    /// Time at which each key was last released or lost.
    pub(crate) frees: HashMap<LockKey, Time>,
    pub(crate) removals: Vec<Removal>,
    /// The grants with a minimum hold.
    pub(crate) kept: Vec<Kept>,
    pub(crate) entries: u64,
    pub(crate) story: Vec<String>,
}

#[derive(Debug)]
pub(crate) struct Waiting {
    pub(crate) arrival: u64,
    pub(crate) since: Time,
    /// Number of its client. A client's exclusive waiters without a limit form one queue.
    pub(crate) line: usize,
    pub(crate) key: LockKey,
    pub(crate) stands_in_line: bool,
}

/// A guard that its holder has not released.
pub(crate) struct Grant {
    pub(crate) entry: u64,
    pub(crate) process: usize,
    pub(crate) clock: ProcessClock,
    pub(crate) watch: HoldWatch,
    pub(crate) key: LockKey,
    pub(crate) mode: Mode,
    pub(crate) number: u64,
    /// End of its validity, as of the last check.
    pub(crate) deadline: Time,
    /// Its end if it is renewed until then.
    pub(crate) limit: Option<Time>,
    pub(crate) told: bool,
    /// True while the other keys of its set are not taken: its loss is not reported.
    pub(crate) is_partial: bool,
    /// Number of checks of the timers that may pass after its end. A layer has a task of its own
    /// between the timer and the holder.
    pub(crate) late_checks: u32,
    /// Approximate validity after a renewal.
    pub(crate) ttl: Duration,
}

/// A grant with a minimum hold.
#[derive(Clone, Debug)]
pub(crate) struct Kept {
    pub(crate) key: LockKey,
    pub(crate) mode: Mode,
    pub(crate) number: u64,
    pub(crate) until: Time,
}

/// A removal of a key by an operator, which ends all grants up to `last`.
#[derive(Debug)]
pub(crate) struct Removal {
    pub(crate) key: LockKey,
    pub(crate) last: u64,
    pub(crate) at: Time,
}

impl Book {
    /// Notes that a holder has released or lost `key`, which opens after its minimum holds.
    pub(crate) fn is_free(&mut self, key: &LockKey) {
        let kept = self.kept.iter().filter(|kept| kept.key == *key);
        let opens = kept.map(|kept| kept.until).max().unwrap_or_default();
        self.frees.insert(key.clone(), self.now.max(opens));
    }

    /// Returns the time since which `key` has no holder, if it has none.
    pub(crate) fn free_since(&self, key: &LockKey) -> Option<Time> {
        let mut holds = self.grants.iter().filter(|grant| grant.key == *key);
        if holds.any(|grant| !grant.told) {
            return None;
        }
        Some(self.frees.get(key).copied().unwrap_or_default())
    }

    /// Returns true if the grant had a minimum hold, for which the store keeps its key.
    pub(crate) fn is_kept(&self, number: u64) -> bool {
        self.kept.iter().any(|kept| kept.number == number)
    }

    pub(crate) fn tell(&mut self, what: String) {
        let now = self.now;
        self.story.push(format!("{now:>14?}  {what}"));
    }
}

impl Grant {
    /// Returns the latest end of its validity. A renewal after the last check is not known here, and
    /// may have ended at the limit.
    pub(crate) fn latest_end(&self, now: Time) -> Time {
        let limit = self.limit.filter(|limit| *limit <= now);
        self.deadline.max(limit.unwrap_or_default())
    }
}

impl fmt::Debug for Grant {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "{}'s hold of {} ({:?}, grant {}, valid until {:?})",
            self.process, self.key, self.mode, self.number, self.deadline
        )
    }
}
