//! What came of the check of a history.

use std::collections::BTreeMap;
use std::fmt;
use std::time::Duration;

use super::claims::History;
use super::rules::Rules;
use super::{contention, exclusion, order, recovery, tokens};

/// A rule that can be broken.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
#[non_exhaustive]
pub enum Rule {
    /// No two holders that conflict say at the same time that they hold.
    Exclusion,
    /// A later grant has a greater token.
    Tokens,
    /// Who came first is served first.
    Order,
    /// Nobody waits for a key that nobody holds.
    Recovery,
}

/// A promise that was broken.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Violation {
    /// Which one.
    pub rule: Rule,
    /// The key on which it was.
    pub key: String,
    /// Between which moments, in nanoseconds on the clock of the history.
    pub span: (u64, u64),
    /// What happened, for people.
    pub message: String,
}

impl fmt::Display for Violation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let name = match self.rule {
            Rule::Exclusion => "two holders",
            Rule::Tokens => "a token that does not grow",
            Rule::Order => "a waiter that was overtaken",
            Rule::Recovery => "a waiter that was left behind",
        };
        write!(f, "{name} of {}: {}", self.key, self.message)
    }
}

/// What there was in a history, and what was wrong with it.
#[derive(Clone, Debug, Default)]
#[non_exhaustive]
pub struct Verdict {
    /// How many claims were granted.
    pub grants: usize,
    /// How many of them had to wait for a holder that was in their way.
    pub contended_grants: usize,
    /// How many guards said that they were lost.
    pub losses: usize,
    /// How often two holders conflicted for a moment, which a removal on the store explains.
    pub removals: usize,
    /// The faults that struck while a hold was live, by kind: one of the worker that suffered it, or of
    /// anybody where everybody did.
    pub faults: BTreeMap<String, usize>,
    /// The longest time for which somebody had to wait for the key of a holder that was lost or dead.
    pub longest_recovery: Option<Duration>,
    /// The promises that were broken, in order of time.
    pub violations: Vec<Violation>,
}

impl History {
    /// Checks that nothing happened which the rules forbid.
    pub fn check(&self, rules: &Rules) -> Verdict {
        let mut verdict = Verdict {
            faults: self.faults_while_held(),
            ..Verdict::default()
        };
        for key in self.keys() {
            let granted = key.claims.iter().filter(|claim| claim.grant.is_some());
            verdict.grants += granted.count();
            verdict.losses += key.claims.iter().filter(|claim| claim.is_lost()).count();
            verdict.contended_grants += contention::contended(key);
            exclusion::check(self, key, rules, &mut verdict);
            tokens::check(self, key, rules, &mut verdict);
            order::check(self, key, rules, &mut verdict);
            recovery::check(self, key, rules, &mut verdict);
        }
        verdict.violations.sort_by_key(|violation| violation.span);
        verdict
    }
}
