//! The data that the locks protect: counters whose every update is a read and a write.
//!
//! The registers know of no lock.

use std::collections::{HashMap, HashSet};

use serde::Serialize;
use tokio::time::Instant;

use crate::protocol::Holder;

/// Number of registers.
pub(crate) const REGISTERS: usize = 4;

/// A counter that is kept twice: without and with a check of the tokens.
#[derive(Debug, Default)]
pub(crate) struct Register {
    plain: Plain,
    fenced: Fenced,
}

/// The outcome of updates.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub(crate) struct Updates {
    pub(crate) updates: u64,
    /// The part of the updates that a holder has overwritten without having read them.
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

    /// Notes that the holder still held the lock when its write was answered.
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

    /// Returns how often two holders updated the register at once, although both confirmed their
    /// locks.
    ///
    /// `is_excused` is true for moments soon after the store forgot its locks.
    pub(crate) fn collisions(&self, is_excused: impl Fn(Instant) -> bool) -> usize {
        let confirmed = |holder: &Holder| self.plain.confirmed.contains(holder);
        let collisions = self.plain.collisions.iter();
        let certain = collisions.filter(|(first, second, at)| {
            confirmed(first) && confirmed(second) && !is_excused(*at)
        });
        certain.count()
    }
}

/// A counter that does not check tokens.
#[derive(Debug, Default)]
struct Plain {
    value: u64,
    writes: u64,
    /// The value that each holder read, and the number of writes before.
    reads: HashMap<Holder, (u64, usize)>,
    /// The holder and the time of each write.
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

/// A counter that refuses a holder with a lower token than an earlier caller had.
#[derive(Debug, Default)]
struct Fenced {
    value: u64,
    updates: u64,
    highest: u64,
    reads: HashMap<Holder, u64>,
}

impl Fenced {
    /// Reads the value, and raises the highest token: an overtaken holder must never write what it
    /// read.
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
