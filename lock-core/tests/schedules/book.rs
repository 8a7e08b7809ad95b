//! What the observer has seen.

use std::collections::HashMap;
use std::fmt;
use std::time::Duration;

use lock_core::{HoldWatch, LockKey, Mode};

use crate::clock::{ProcessClock, Time};

/// What has happened, and what is the case now.
#[derive(Debug, Default)]
pub(crate) struct Book {
    pub(crate) now: Time,
    pub(crate) arrivals: u64,
    pub(crate) waiting: Vec<Waiting>,
    pub(crate) grants: Vec<Grant>,
    /// Arrival and token of every grant, key by key.
    pub(crate) served: Vec<(LockKey, u64, u64)>,
    /// When each key was given back or lost the last time.
    pub(crate) frees: HashMap<LockKey, Time>,
    pub(crate) removals: Vec<Removal>,
    pub(crate) entries: u64,
    pub(crate) story: Vec<String>,
}

#[derive(Debug)]
pub(crate) struct Waiting {
    pub(crate) arrival: u64,
    pub(crate) since: Time,
    /// Whose client it asked: its exclusive waiters stand in one line, those to the end who wait for ever.
    pub(crate) line: usize,
    pub(crate) key: LockKey,
    pub(crate) stands_in_line: bool,
}

/// A guard that its holder has not given back.
pub(crate) struct Grant {
    pub(crate) entry: u64,
    pub(crate) process: usize,
    pub(crate) clock: ProcessClock,
    pub(crate) watch: HoldWatch,
    pub(crate) key: LockKey,
    pub(crate) mode: Mode,
    pub(crate) number: u64,
    /// Until when it was valid when it was looked at last.
    pub(crate) deadline: Time,
    pub(crate) told: bool,
    /// For how long it is valid after a renewal, nearly.
    pub(crate) ttl: Duration,
}

/// What an operator took away: what was granted up to then.
#[derive(Debug)]
pub(crate) struct Removal {
    pub(crate) key: LockKey,
    pub(crate) last: u64,
    pub(crate) at: Time,
}

impl Book {
    /// Somebody has given `key` back, or lost it.
    pub(crate) fn is_free(&mut self, key: &LockKey) {
        self.frees.insert(key.clone(), self.now);
    }

    /// Since when nobody holds `key`, if nobody does.
    pub(crate) fn free_since(&self, key: &LockKey) -> Option<Time> {
        let mut holds = self.grants.iter().filter(|grant| grant.key == *key);
        if holds.any(|grant| !grant.told) {
            return None;
        }
        Some(self.frees.get(key).copied().unwrap_or_default())
    }

    pub(crate) fn tell(&mut self, what: String) {
        let now = self.now;
        self.story.push(format!("{now:>14?}  {what}"));
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
