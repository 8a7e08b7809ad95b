//! What the locks protect, kept by somebody who knows of no lock: counters whose every update is a read and a
//! write.

use std::collections::{HashMap, HashSet};

use serde::Serialize;
use tokio::time::Instant;

use crate::protocol::Holder;

/// How many there are.
pub(crate) const REGISTERS: usize = 4;

/// A counter that is kept twice: once as it is, and once with a look at the tokens.
#[derive(Debug, Default)]
pub(crate) struct Register {
    plain: Plain,
    fenced: Fenced,
}

/// What became of updates.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub(crate) struct Updates {
    pub(crate) updates: u64,
    /// Of those, updates that others have overwritten unseen.
    pub(crate) lost: u64,
}

impl Register {
    pub(crate) fn read(&mut self, holder: Holder) {
        self.plain.read(holder);
        self.fenced.read(holder);
    }

    pub(crate) fn write(&mut self, holder: Holder) {
        self.plain.write(holder);
        self.fenced.write(holder);
    }

    /// The holder still said that it held the lock when its write was answered.
    pub(crate) fn confirm(&mut self, holder: Holder) {
        self.plain.confirmed.insert(holder);
    }

    pub(crate) fn plain(&self) -> Updates {
        self.plain.updates()
    }

    pub(crate) fn fenced(&self) -> Updates {
        let Fenced { value, updates, .. } = self.fenced;
        let lost = updates.saturating_sub(value);
        Updates { updates, lost }
    }

    /// How often two holders who had the lock all the time, as they said, were at it together, except as long
    /// after a moment at which the store forgot its locks as is `excused`.
    pub(crate) fn collisions(&self, is_excused: impl Fn(Instant) -> bool) -> usize {
        let confirmed = |holder: &Holder| self.plain.confirmed.contains(holder);
        let collisions = self.plain.collisions.iter();
        let certain = collisions.filter(|(first, second, at)| {
            confirmed(first) && confirmed(second) && !is_excused(*at)
        });
        certain.count()
    }
}

/// A counter that believes everybody.
#[derive(Debug, Default)]
struct Plain {
    value: u64,
    writes: u64,
    /// What was read, and after how many writes.
    reads: HashMap<Holder, (u64, usize)>,
    /// Who wrote, and when.
    log: Vec<(Holder, Instant)>,
    collisions: Vec<(Holder, Holder, Instant)>,
    confirmed: HashSet<Holder>,
}

impl Plain {
    fn read(&mut self, holder: Holder) {
        self.reads.insert(holder, (self.value, self.log.len()));
    }

    fn write(&mut self, holder: Holder) {
        let Some((value, seen)) = self.reads.remove(&holder) else {
            return;
        };
        for (other, at) in &self.log[seen..] {
            self.collisions.push((*other, holder, *at));
        }
        self.log.push((holder, Instant::now()));
        self.value = value + 1;
        self.writes += 1;
    }

    fn updates(&self) -> Updates {
        let overwritten: HashSet<&Holder> =
            self.collisions.iter().map(|(other, ..)| other).collect();
        Updates {
            updates: self.writes,
            lost: overwritten.len() as u64,
        }
    }
}

/// A counter that refuses whoever has a lower token than somebody else had.
#[derive(Debug, Default)]
struct Fenced {
    value: u64,
    updates: u64,
    highest: u64,
    reads: HashMap<Holder, u64>,
}

impl Fenced {
    /// A read shows the token, too: what was read by somebody who was overtaken must never be written.
    fn read(&mut self, holder: Holder) {
        if holder.token >= self.highest {
            self.highest = holder.token;
            self.reads.insert(holder, self.value);
        }
    }

    fn write(&mut self, holder: Holder) {
        let read = self.reads.remove(&holder);
        if let Some(value) = read.filter(|_| holder.token >= self.highest) {
            self.value = value + 1;
            self.updates += 1;
        }
    }
}
