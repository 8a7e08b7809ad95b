//! What happens to which bytes.

use std::time::Duration;

use super::connection::Connection;

/// Which way bytes travel.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Way {
    ToServer,
    ToClient,
}

pub(super) const BOTH_WAYS: &[Way] = &[Way::ToServer, Way::ToClient];

/// Which connections a rule is about, those to come included.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Which {
    All,
    Nth(usize),
    OpenedWith(Vec<u8>),
}

impl Which {
    pub(super) fn is(&self, connection: &Connection) -> bool {
        match self {
            Self::All => true,
            Self::Nth(number) => connection.number == *number,
            Self::OpenedWith(mark) => connection.opened_with(mark),
        }
    }
}

/// What happens to bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Fault {
    Pass,
    Delay(Duration),
    Hold,
    Lose,
    /// Once: the first bytes are lost, and everything after them.
    LoseNext(After),
    /// Once: the connection is closed after so many bytes.
    CutAfter(usize),
}

/// What becomes of a connection whose reply was lost.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum After {
    Cut,
    Silence,
}

/// A fault that is in force, with a number by which one that happens once is struck off.
#[derive(Clone, Debug)]
pub(super) struct Rule {
    pub(super) number: u64,
    pub(super) fault: Fault,
    which: Which,
    way: Way,
}

/// The rules in force: of those that fit, the latest counts.
#[derive(Debug, Default)]
pub(super) struct Rules {
    list: Vec<Rule>,
    made: u64,
}

impl Rules {
    /// Puts `fault` in force, instead of what was said before of the same connections.
    pub(super) fn set(&mut self, which: &Which, ways: &[Way], fault: Fault) {
        self.list.retain(|rule| {
            !(ways.contains(&rule.way) && (*which == Which::All || *which == rule.which))
        });
        for way in ways {
            self.made += 1;
            self.list.push(Rule {
                number: self.made,
                fault,
                which: which.clone(),
                way: *way,
            });
        }
    }

    /// What is in force for one way of a connection.
    pub(super) fn of(&self, connection: &Connection, way: Way) -> Option<Rule> {
        let fits = |rule: &&Rule| rule.way == way && rule.which.is(connection);
        self.list.iter().rev().find(fits).cloned()
    }

    /// Strikes off a rule that happens once; `false` when it has happened already.
    pub(super) fn strike_off(&mut self, number: u64) -> bool {
        let before = self.list.len();
        self.list.retain(|rule| rule.number != number);
        self.list.len() < before
    }
}
