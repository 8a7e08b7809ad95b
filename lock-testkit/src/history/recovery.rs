//! The rule that no waiter is left behind.

use std::collections::BTreeSet;
use std::time::Duration;

use super::claims::{Claim, End, History, Key};
use super::intervals::{milliseconds, nanoseconds};
use super::rules::Rules;
use super::verdict::{Rule, Verdict, Violation};

/// Checks the times at which a key had waiters but no holder.
pub(super) fn check(history: &History, key: &Key, rules: &Rules, verdict: &mut Verdict) {
    let mut steps = steps(key);
    steps.sort_unstable();
    let ttl = key.claims.iter().map(|claim| claim.ttl).max();
    let limit = 3 * ttl.unwrap_or_default() + nanoseconds(rules.recovery);
    let mut line = Line::default();
    for (at, step, number) in steps {
        let claim = &key.claims[number];
        match step {
            Step::Ended => line.holder_gone(at, claim),
            Step::Invoked => drop(line.waiting.insert((at, number))),
            Step::Granted => {
                if let Some(wait) = line.waited_until(at) {
                    wait.judge(history, key, limit, verdict);
                }
                line.waiting.remove(&(claim.invoked, number));
                line.holders += 1;
            }
            Step::Left => drop(line.waiting.remove(&(claim.invoked, number))),
        }
    }
    if let Some(wait) = line.waited_until(history.end) {
        wait.judge(history, key, limit, verdict);
    }
}

/// A change of a key. At the same moment, the end of a hold comes first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Step {
    Ended,
    Invoked,
    Granted,
    Left,
}

fn steps(key: &Key) -> Vec<(u64, Step, usize)> {
    let of_claim = |(number, claim): (usize, &Claim)| {
        let invoked = Some((claim.invoked, Step::Invoked, number));
        let granted = claim.grant.map(|grant| (grant.at, Step::Granted, number));
        let ended = claim.end.map(|(at, _)| match granted {
            // A process may be killed between its grant and the record of the grant.
            Some((grant, ..)) => (at.max(grant + 1), Step::Ended, number),
            None => (at, Step::Left, number),
        });
        [invoked, granted, ended].into_iter().flatten()
    };
    key.claims.iter().enumerate().flat_map(of_claim).collect()
}

/// The holders and waiters of a key at a moment.
#[derive(Debug, Default)]
struct Line {
    /// The time at which each claim was made, and its number.
    waiting: BTreeSet<(u64, usize)>,
    holders: usize,
    /// The end of the last hold; its kind says whether the holder noticed it.
    end: Option<(u64, End)>,
}

impl Line {
    fn holder_gone(&mut self, at: u64, claim: &Claim) {
        self.holders -= 1;
        self.end = claim.end.map(|(_, end)| (at, end));
    }

    /// Returns how long a claim has waited without a holder.
    fn waited_until(&self, until: u64) -> Option<Wait> {
        let first = self.waiting.first().filter(|_| self.holders == 0)?.0;
        let (since, end) = match self.end {
            Some((at, end)) => (at.max(first), end),
            None => (first, End::Released),
        };
        Some(Wait { since, until, end })
    }
}

/// A time with a waiter and without a holder.
struct Wait {
    since: u64,
    until: u64,
    end: End,
}

impl Wait {
    fn judge(&self, history: &History, key: &Key, limit: u64, verdict: &mut Verdict) {
        let waited = self.until.saturating_sub(self.since);
        if matches!(self.end, End::Lost | End::Died) {
            let recovery = Duration::from_nanos(waited);
            verdict.longest_recovery = verdict.longest_recovery.max(Some(recovery));
        }
        // A fault on any process may delay the next waiter.
        let troubled = history.troubles.within(self.since, self.until);
        if waited > limit + troubled {
            let of = match self.end {
                End::Lost => "whose last holder had lost it",
                End::Died => "whose last holder had died",
                End::Released | End::WithoutGrant => "that nobody held",
            };
            verdict.violations.push(Violation {
                rule: Rule::Recovery,
                key: key.name.clone(),
                span: (self.since, self.until),
                message: format!("somebody waited {} for a key {of}", milliseconds(waited)),
            });
        }
    }
}
