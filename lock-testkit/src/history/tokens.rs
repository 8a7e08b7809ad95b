//! The rule that tokens grow.

use std::collections::HashMap;

use lock_core::{FencingToken, TokenOrder};

use super::claims::{Claim, Fault, Grant, History, Key};
use super::event::Effect;
use super::rules::Rules;
use super::verdict::{Rule, Verdict, Violation};

/// Number of low bits of a token that count how often its hold was handed on.
const HAND_OFF_BITS: u32 = i64::MAX.count_ones() - FencingToken::GRANT_MAX.count_ones();

/// Checks that a grant has a greater token than every grant that was known before its request.
pub(super) fn check(history: &History, key: &Key, rules: &Rules, verdict: &mut Verdict) {
    let granted = key
        .claims
        .iter()
        .filter_map(|claim| Some((claim, claim.grant?)));
    let mut granted: Vec<(&Claim, Grant)> = granted.collect();
    granted.sort_by_key(|(_, grant)| grant.at);
    let eras = Eras::between(history, |fault| breaks_off(fault, rules.tokens));
    let holds = beginnings(&granted);
    // For each grant, the grant with the greatest token so far in its era.
    let mut greatest: Vec<(u64, usize)> = Vec::with_capacity(granted.len());
    for (place, (claim, grant)) in granted.iter().enumerate() {
        let last = greatest
            .last()
            .filter(|_| eras.are_one(granted[place - 1].1.at, grant.at));
        // The token of a claim that was under way when the promise broke may be of either era.
        let begun = match rules.handed_on {
            true => holds[&(grant.token >> HAND_OFF_BITS)],
            false => claim.invoked,
        };
        let is_of_one = eras.are_one(begun, grant.at);
        let here = (if is_of_one { grant.token } else { 0 }, place);
        greatest.push(last.map_or(here, |last| here.max(*last)));
    }
    for (claim, grant) in &granted {
        let known = granted.partition_point(|(_, other)| other.at < claim.invoked);
        let Some(&(token, place)) = known.checked_sub(1).map(|last| &greatest[last]) else {
            continue;
        };
        let (holder, before) = granted[place];
        let was_removed =
            || history.is_explained_by_removal((claim, *grant), (holder, before), rules);
        let is_explained = rules.handed_on && token > grant.token && was_removed();
        if token >= grant.token && eras.are_one(before.at, grant.at) && !is_explained {
            verdict.violations.push(Violation {
                rule: Rule::Tokens,
                key: key.name.clone(),
                span: (before.at, grant.at),
                message: format!(
                    "worker {} was granted {} and then worker {} asked and was granted {}",
                    history.worker(holder.worker).name,
                    token,
                    history.worker(claim.worker).name,
                    grant.token,
                ),
            });
        }
    }
}

/// Returns when each hold was first requested, before any hand-off, by its number.
fn beginnings(granted: &[(&Claim, Grant)]) -> HashMap<u64, u64> {
    let mut holds = HashMap::new();
    for (claim, grant) in granted {
        let begun = holds.entry(grant.token >> HAND_OFF_BITS);
        let begun = begun.or_insert(claim.invoked);
        *begun = claim.invoked.min(*begun);
    }
    holds
}

/// The eras in which tokens grow, separated by the times at which the promise breaks.
pub(super) struct Eras {
    breaks: Vec<u64>,
}

impl Eras {
    /// Creates the eras between the faults that break the promise.
    pub(super) fn between(history: &History, breaks_off: impl Fn(&Fault) -> bool) -> Self {
        let broken_off = history.faults.iter().filter(|fault| breaks_off(fault));
        let mut breaks: Vec<u64> = broken_off
            .flat_map(|fault| [fault.begin, fault.end])
            .collect();
        breaks.sort_unstable();
        Self { breaks }
    }

    /// Returns true if both moments are in the same era.
    pub(super) fn are_one(&self, one: u64, other: u64) -> bool {
        let era = |at| self.breaks.partition_point(|moment| *moment <= at);
        era(one) == era(other)
    }
}

/// Returns true if `promise` does not cover tokens before and after the fault.
fn breaks_off(fault: &Fault, promise: TokenOrder) -> bool {
    match promise {
        TokenOrder::Process => fault.effect == Effect::Forgetting,
        TokenOrder::ServerClock => fault.effect == Effect::SetBack,
        _ => false,
    }
}
