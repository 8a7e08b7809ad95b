//! The rules: which fault affects which bytes.

use std::time::Duration;

use super::connection::Connection;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Way {
    ToServer,
    ToClient,
}

pub(super) const BOTH_WAYS: &[Way] = &[Way::ToServer, Way::ToClient];

/// The connections that a rule affects, including later connections.
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

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Fault {
    Pass,
    Delay(Duration),
    Hold,
    Lose,
    /// Once: drops the next bytes, and then cuts or silences their connection.
    LoseNext(After),
    /// Once: closes the connection after this number of bytes.
    CutAfter(usize),
}

/// The state of a connection after its reply was dropped.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum After {
    Cut,
    Silence,
}

/// A fault in force. The number identifies a rule that applies once.
#[derive(Clone, Debug)]
pub(super) struct Rule {
    pub(super) number: u64,
    pub(super) fault: Fault,
    which: Which,
    way: Way,
}

/// The rules in force; of the rules that match, the latest counts.
#[derive(Debug, Default)]
pub(super) struct Rules {
    list: Vec<Rule>,
    made: u64,
}

impl Rules {
    /// Puts `fault` in force, instead of earlier faults on the same connections.
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

    /// Returns the rule in force for one direction of a connection.
    pub(super) fn of(&self, connection: &Connection, way: Way) -> Option<Rule> {
        let fits = |rule: &&Rule| rule.way == way && rule.which.is(connection);
        self.list.iter().rev().find(fits).cloned()
    }

    /// Removes a rule that applies once; returns false if it has applied already.
    pub(super) fn strike_off(&mut self, number: u64) -> bool {
        let before = self.list.len();
        self.list.retain(|rule| rule.number != number);
        self.list.len() < before
    }
}
