//! The result of the check of a history.

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
    /// Conflicting holders never say at the same time that they hold.
    Exclusion,
    /// A later grant has a greater token.
    Tokens,
    /// The first claim is served first.
    Order,
    /// No waiter waits for a key without a holder.
    Recovery,
}

/// A broken promise.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Violation {
    /// The broken rule.
    pub rule: Rule,
    /// The name of the key.
    pub key: String,
    /// The start and the end, in nanoseconds on the clock of the history.
    pub span: (u64, u64),
    /// A readable description.
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

/// The result of a check: what happened in the history, and which rules were broken.
///
/// ```
/// use lock_testkit::history::Verdict;
///
/// fn print(verdict: &Verdict) {
///     println!("{} grants, {} losses", verdict.grants, verdict.losses);
///     for violation in &verdict.violations {
///         println!("{:?} was broken: {violation}", violation.rule);
///     }
/// }
/// # print(&Verdict::default());
/// ```
#[derive(Clone, Debug, Default)]
#[non_exhaustive]
pub struct Verdict {
    /// The number of granted claims.
    pub grants: usize,
    /// The number of grants that had to wait for a holder.
    pub contended_grants: usize,
    /// The number of guards that said that they were lost.
    pub losses: usize,
    /// The number of times that two holders conflicted for a moment, explained by a removal.
    pub removals: usize,
    /// The number of faults, by kind, that struck during a hold. A fault on one worker counts
    /// during holds of that worker, a fault on all workers during any hold.
    pub faults: BTreeMap<String, usize>,
    /// The longest wait for a key whose holder had lost it or had died.
    pub longest_recovery: Option<Duration>,
    /// The broken promises, in the order of time.
    pub violations: Vec<Violation>,
}

impl History {
    /// Checks the history against the rules.
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
